"""A folder that ASTRA-sim reads as it is: workload, groups, system and network files, and what was fitted.

    trace.<rank>.et         the measured trace
    groups.json             process groups
    system-replay.json      every node takes its measured duration
    system-simulate.json    collectives are simulated on the fitted network, compute is replayed (only with a fit)
    network.yml             bandwidth and latency, fitted to the measured times
    memory.json             no remote memory
    fit.json                fit and simulated times with residuals, and what was changed for ASTRA-sim
    README.txt              the command lines, the same residuals as a table, and the limits of the simulator

Source: ASTRA-sim, astra-sim/system/Sys.cc (system), astra-network-analytical (network: GB/s of 2^30 B/s; a message
through a Switch costs twice the latency and, in the congestion-unaware backend, its size over the bandwidth once).

ASTRA-sim keeps one communication node in flight per rank, receives excepted; it queues the others. Its iteration is
therefore longer than the measured one if a trace overlaps communication. Source: ASTRA-sim,
astra-sim/workload/HardwareResource.cc.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from emulator.annexes.exports.astra_sim.fit import FittedPoint, fit
from emulator.annexes.exports.astra_sim.observe import observe
from emulator.annexes.exports.astra_sim.simulator import (
    Dimension,
    Judged,
    SimulatedPoint,
    choose_algorithms,
    dimensions,
    judge,
    limits_of,
    to_yaml,
)
from emulator.annexes.exports.astra_sim.workload import PREFIX, write_workload
from emulator.annexes.exports.formats import Format
from emulator.host.files import writing
from emulator.results.run_folder.reader import Run
from emulator.results.run_folder.schema import RunTable
from emulator.results.statistics.samples.measured_rows import labels_and_codes, read_measured, to_ints
from emulator.trace.meaning.model import CommKind
from emulator.units import format_duration


def overlapping(run: Run) -> tuple[int, int]:
    """(measurements posted on a rank before an earlier one was complete, all measurements); receives do not count.

    Raises:
        ResultError: the samples are missing or damaged.
    """
    names = ["iteration", "rank", "kind", "group_size", "post_ns", "done_ns"]
    table = read_measured(run, RunTable.SAMPLES, names)
    labels, codes = labels_and_codes(table["kind"])
    is_recv = np.array([label == CommKind.RECV.label for label in labels], bool)[codes]
    keep = ~is_recv & (to_ints(table["group_size"]) != 1)
    iteration, rank, post, done = (to_ints(table[name])[keep] for name in ("iteration", "rank", "post_ns", "done_ns"))
    order = np.lexsort((post, rank, iteration))
    count, lane, busy_until = 0, (-1, -1), 0
    for row in order.tolist():
        here = (int(iteration[row]), int(rank[row]))
        if here != lane:
            lane, busy_until = here, int(done[row])
            continue
        count += int(post[row]) < busy_until
        busy_until = max(busy_until, int(done[row]))
    return count, len(order)


_BACKEND = "AstraSim_Analytical_Congestion_Unaware"


def readme(
    run_id: str, judged: Sequence[Judged], limits: Sequence[str], *, has_groups: bool, can_simulate: bool
) -> str:
    """The text.

    Args:
        run_id: of the run.
        judged: the dimensions of the network.
        limits: where the simulator differs from the run, a sentence each.
        has_groups: whether groups.json has groups.
        can_simulate: whether system-simulate.json exists.
    """
    group_option = " --comm-group-configuration=groups.json" if has_groups else ""
    parts = [
        f"""Charkha run {run_id} for ASTRA-sim (analytical backend). In this folder:

  {_BACKEND} --workload-configuration={PREFIX}{group_option} \\
    --system-configuration=system-replay.json --network-configuration=network.yml \\
    --remote-memory-configuration=memory.json

replays the measured durations.""",
        _SIMULATION if can_simulate else _NO_SIMULATION,
    ]
    if limits:
        parts.append("Where ASTRA-sim differs from the run:\n" + "\n".join(f"  - {one}." for one in limits))
    parts.append("Fit of network.yml, details in fit.json:\n" + "\n".join(f"  {one}" for one in judged))
    parts.extend(filter(None, map(_table, judged)))
    return "\n\n".join(parts) + "\n"


_SIMULATION = """With system-simulate.json instead, ASTRA-sim simulates the collectives on the fitted network. The
congestion-aware backend stores and forwards at the switch: there the time of a large message is twice that of the fit.
The congestion-unaware backend does not share a port between messages that a rank sends at the same time."""
_NO_SIMULATION = (
    "Collectives cannot be simulated: the run gives no fit for the network, so there is no system file for it."
)


def _table(judged: Judged) -> str:
    """Measured, fitted and simulated time of each class; "" without a fit."""
    if judged.dimension.fit is None:
        return ""
    simulated = {id(point.fitted): point for point in judged.points}
    rows = [("class", "measured", "fit", "off", "simulated", "off", "as")]
    for point in judged.dimension.fit.points:
        row = (
            point.observation.label,
            format_duration(point.observation.cct_ns),
            format_duration(point.predicted_ns),
            f"{100 * point.residual:+.1f} %",
        )
        found = simulated.get(id(point))
        rows.append(
            (*row, format_duration(found.simulated_ns), f"{100 * found.residual:+.1f} %", found.algorithm or "message")
            if found
            else (*row, "replayed", "", "")
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return f"{judged.dimension.link.value}:\n" + "\n".join(f"  {line}" for line in lines)


def write(run: Run, folder: Path) -> Sequence[str]:
    """Write the folder.

    Returns:
        Notes for the user: the verdict on each dimension of the network, where the simulator differs from the run, and
        what was changed for it.

    Raises:
        ResultError, TraceError: the run, or its measured trace, cannot be read.
        HostError: a file cannot be written.
    """
    observed = observe(run)
    fits = {link: fit(observations) for link, observations in observed.by_link.items()}
    ranks = run.manifest.trace.ranks
    network = dimensions(ranks, (run.manifest.topology.get("host_index") or [])[:ranks], fits)
    algorithms = choose_algorithms([one.fit for one in network if one.fit])
    judged = [judge(one, algorithms, observed.left_out) for one in network]
    overlaps = overlapping(run)
    limits = limits_of(judged, overlaps, fits)
    with writing(folder):
        folder.mkdir(parents=True)
    groups, counts = write_workload(run, folder)
    changed = [f"{count:,} node{'s' * (count != 1)} changed for ASTRA-sim: {what}" for what, count in counts.items()]
    can_simulate = all(one.fit for one in network)
    facts = {
        "run_id": run.manifest.run_id,
        "scale_bytes": run.manifest.scaling.bytes,
        "compute": run.manifest.scaling.compute,
        "model": "cct = messages * latency + port_bytes / bandwidth",
        "simulated_with": {kind.label: algorithm for kind, algorithm in algorithms.items()} if can_simulate else {},
        "dimensions": [_dimension_facts(one) for one in judged],
        "overlapping_communications": {"overlapping": overlaps[0], "measured": overlaps[1]},
        "limits": limits,
        "classes_left_out": dict(observed.left_out),
        "changed_for_astra_sim": dict(counts),
    }
    files = {
        "groups.json": json.dumps({str(number): list(ranks) for number, ranks in groups.ranks.items()}, indent=1),
        "system-replay.json": json.dumps(_system(algorithms, network, is_replay=True), indent=1),
        "network.yml": to_yaml(network),
        "memory.json": json.dumps({"memory-type": "NO_MEMORY_EXPANSION"}),
        "fit.json": json.dumps(facts, indent=1),
        "README.txt": readme(
            run.manifest.run_id, judged, [*limits, *changed], has_groups=bool(groups.ranks), can_simulate=can_simulate
        ),
    }
    if can_simulate:
        files["system-simulate.json"] = json.dumps(_system(algorithms, network, is_replay=False), indent=1)
    with writing(folder):
        for name, content in files.items():
            (folder / name).write_text(content.rstrip() + "\n", encoding="utf-8")
    return [*map(str, judged), *limits, *changed]


def _system(algorithms: Mapping[CommKind, str], network: Sequence[Dimension], *, is_replay: bool) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "scheduling-policy": "FIFO",
        "endpoint-delay": 1,  # ns; at 0 the simulator stops
        "active-chunks-per-dimension": 1,
        "preferred-dataset-splits": 1,
        "collective-optimization": "baseline",
        "local-mem-bw": 1000,
        "boost-mode": 0,
        "replay-only": int(is_replay),
    }
    for kind, algorithm in algorithms.items():
        facts[f"{kind.label.replace('_', '-')}-implementation"] = [algorithm] * len(network)
    return facts


def _dimension_facts(judged: Judged) -> dict[str, Any]:
    one = judged.dimension
    facts: dict[str, Any] = {"link": one.link.value, "ranks": one.ranks, "verdict": judged.verdict}
    if one.fit is not None:
        simulated = {id(point.fitted): point for point in judged.points}
        facts |= {
            "latency_ns_per_message": one.fit.latency_ns,
            "bandwidth_bytes_per_s": one.fit.bandwidth_bytes_per_s,
            "bandwidth_limit_bytes_per_s": one.fit.limit_bytes_per_s,
            "bandwidth_at_limit": one.fit.is_at_limit,
            "worst_residual_percent": 100 * one.fit.worst_residual,
            "observations": [_point_facts(point, simulated.get(id(point))) for point in one.fit.points],
        }
    return facts


def _point_facts(point: FittedPoint, simulated: SimulatedPoint | None) -> dict[str, Any]:
    return (
        asdict(point.observation)
        | {
            "collective": point.observation.collective.label,
            "predicted_ns": round(point.predicted_ns),
            "residual_percent": 100 * point.residual,
            "predicted_without_it_ns": None if point.blind_ns is None else round(point.blind_ns),
        }
        | {
            "simulated_as": simulated and simulated.algorithm,
            "simulated_ns": simulated and round(simulated.simulated_ns),
            "simulated_residual_percent": simulated and 100 * simulated.residual,
        }
    )


ASTRA_SIM = Format("astra-sim", ".astra-sim", "a folder for ASTRA-sim: workload, network", write, is_folder=True)
