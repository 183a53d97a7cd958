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
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from emulator.annexes.exports.astra_sim.fit import FittedPoint, fit
from emulator.annexes.exports.astra_sim.judgement import Judged, judge, limits_of
from emulator.annexes.exports.astra_sim.network import Dimension, dimensions, to_yaml
from emulator.annexes.exports.astra_sim.observe import observe
from emulator.annexes.exports.astra_sim.overlap import overlapping
from emulator.annexes.exports.astra_sim.readme import readme
from emulator.annexes.exports.astra_sim.simulator import SimulatedPoint, choose_algorithms
from emulator.annexes.exports.astra_sim.workload import write_workload
from emulator.annexes.exports.formats import Format
from emulator.host.files import writing
from emulator.results.run_folder.reader import Run
from emulator.trace.meaning.model import CommKind


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
