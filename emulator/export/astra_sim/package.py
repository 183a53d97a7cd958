"""A folder that ASTRA-sim takes as it is: workload, groups, system and network files, and what was fitted.

    trace.<rank>.et         the measured trace
    groups.json             process groups
    system-replay.json      every node takes its measured duration
    system-simulate.json    collectives are simulated on the fitted network, compute is replayed
    network.yml             bandwidth and latency, fitted to the measured times
    memory.json             no remote memory
    fit.json                the fit with its residuals, and what was changed for ASTRA-sim
    README.txt              the command lines

Source: ASTRA-sim, astra-sim/system/Sys.cc (system), astra-network-analytical (network: GB/s of 2^30 B/s; a message
through a Switch costs twice the latency and, in the congestion-unaware backend, its size over the bandwidth once).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml

from emulator.export.astra_sim.fit import Fit, fit
from emulator.export.astra_sim.observe import LinkClass, observe
from emulator.export.astra_sim.workload import PREFIX, Groups, write_workload
from emulator.run_folder.reader import Run
from emulator.run_folder.stream import writing
from emulator.statistics.summary import summarise

GB = 1 << 30
_SWITCH_HOPS = 2
_ALGORITHMS = {
    "ring": "ring",
    "direct": "direct",
    "halving_doubling": "halvingDoubling",
    "recursive_doubling": "halvingDoubling",
    "parallel": "direct",
}
_IMPLEMENTED = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")


@dataclass(frozen=True, slots=True)
class Dimension:
    """A dimension of the simulated network, the innermost first; `fit` is None if nothing was measured on it."""

    ranks: int
    link: LinkClass
    fit: Fit | None


def write(run: Run, folder: Path) -> Sequence[str]:
    """Write the folder.

    Returns:
        What may be thought of the fit, a line per dimension of the network.

    Raises:
        ResultError, TraceError: the run, or its measured trace, cannot be read.
        HostError: a file cannot be written.
    """
    observed = observe(run)
    fits = {link: fit(observations) for link, observations in observed.by_link.items()}
    network = dimensions(run.manifest.trace.ranks, run.manifest.topology.get("host_index") or [], fits)
    with writing(folder):
        folder.mkdir(parents=True)
    groups, changes = write_workload(run, folder)
    algorithms = _algorithms(run)
    verdicts = [f"{one.link.value}, {one.ranks} ranks: {verdict(one.fit)}" for one in network]
    files = {
        "groups.json": json.dumps({str(number): list(ranks) for number, ranks in groups.ranks.items()}, indent=1),
        "system-replay.json": json.dumps(_system(algorithms, network, is_replay=True), indent=1),
        "network.yml": _network(network),
        "memory.json": json.dumps({"memory-type": "NO_MEMORY_EXPANSION"}),
        "fit.json": json.dumps(_facts(run, network, observed.left_out, changes), indent=1),
        "README.txt": _readme(run, verdicts, groups),
    }
    if all(one.fit for one in network):
        files["system-simulate.json"] = json.dumps(_system(algorithms, network, is_replay=False), indent=1)
    with writing(folder):
        for name, content in files.items():
            (folder / name).write_text(content.rstrip() + "\n", encoding="utf-8")
    return verdicts


def dimensions(ranks: int, host_index: Sequence[int], fits: Mapping[LinkClass, Fit | None]) -> list[Dimension]:
    """The simulated network: one switch, or a switch in every host and one between where all hosts have equal blocks.

    Args:
        ranks: of the trace.
        host_index: host per rank; empty: all on one host.
        fits: by link class.
    """
    hosts = len(set(host_index))
    within, between = fits.get(LinkClass.WITHIN_HOST), fits.get(LinkClass.BETWEEN_HOSTS)
    if hosts < 2:
        return [Dimension(ranks, LinkClass.WITHIN_HOST, within)]
    per_host = ranks // hosts
    is_block = list(host_index) == [rank // per_host for rank in range(ranks)] if per_host else False
    if per_host > 1 and is_block and within and between:
        return [
            Dimension(per_host, LinkClass.WITHIN_HOST, within),
            Dimension(hosts, LinkClass.BETWEEN_HOSTS, between),
        ]
    return [Dimension(ranks, LinkClass.BETWEEN_HOSTS, between or within)]


def _network(network: Sequence[Dimension]) -> str:
    """The file; where nothing was measured numbers stand in that replaying needs and does not use."""
    known = [one.fit for one in network]
    lines = {
        "topology": ["Switch"] * len(network),
        "npus_count": [one.ranks for one in network],
        "bandwidth": [round(one.bandwidth_bytes_per_s / GB, 6) if one else 1.0 for one in known],
        "latency": [round(one.latency_ns / _SWITCH_HOPS, 3) if one else 0.0 for one in known],
    }
    text = "# bandwidth in GB/s of 2^30 B/s, latency in ns per hop (two hops through a switch); see fit.json\n"
    if None in known:
        text += "# PLACEHOLDERS: nothing was measured that they could be fitted to; for replaying only\n"
    return text + yaml.safe_dump(lines, default_flow_style=None, sort_keys=False)


def _system(algorithms: Mapping[str, str], network: Sequence[Dimension], *, is_replay: bool) -> dict[str, Any]:
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
    for name in _IMPLEMENTED:
        facts[f"{name.replace('_', '-')}-implementation"] = [algorithms.get(name, "ring")] * len(network)
    return facts


def _algorithms(run: Run) -> Mapping[str, str]:
    """Collective → ASTRA-sim's name of the algorithm that moved most bytes; `ring` where it has no such algorithm."""
    most: dict[str, tuple[int, str]] = {}
    for one in summarise(run).classes:
        weight = one.size_bytes * one.count
        most[one.collective] = max(most.get(one.collective, (0, "")), (weight, one.algorithm))
    return {collective: _ALGORITHMS.get(algorithm, "ring") for collective, (_, algorithm) in most.items()}


def _facts(
    run: Run, network: Sequence[Dimension], left_out: Mapping[str, int], changes: Mapping[str, int]
) -> dict[str, Any]:
    return {
        "run_id": run.manifest.run_id,
        "scale_bytes": run.manifest.scaling.bytes,
        "compute": run.manifest.scaling.compute,
        "model": "cct = messages * latency + port_bytes / bandwidth",
        "dimensions": [_dimension_facts(one) for one in network],
        "classes_left_out": dict(left_out),
        "changed_for_astra_sim": dict(changes),
    }


def _dimension_facts(one: Dimension) -> dict[str, Any]:
    facts: dict[str, Any] = {"link": one.link.value, "ranks": one.ranks, "verdict": verdict(one.fit)}
    if one.fit is not None:
        facts |= {
            "latency_ns_per_message": one.fit.latency_ns,
            "bandwidth_bytes_per_s": one.fit.bandwidth_bytes_per_s,
            "worst_residual_percent": 100 * one.fit.worst_residual,
            "observations": [
                asdict(point.observation)
                | {
                    "predicted_ns": round(point.predicted_ns),
                    "residual_percent": 100 * point.residual,
                    "predicted_without_it_ns": None if point.blind_ns is None else round(point.blind_ns),
                }
                for point in one.fit.points
            ],
        }
    return facts


def verdict(fitted: Fit | None) -> str:
    """What may be thought of a fit, in words."""
    if fitted is None:
        return "nothing was measured on it: for replaying only"
    if not fitted.is_determined:
        return "latency unknown: one size, or sizes in one proportion; it is taken as 0. Measure several sizes (bench)"
    if fitted.is_good:
        return "good: every class within 10 % of the fit"
    worst = max(fitted.points, key=lambda point: abs(point.residual))
    return (
        f"BAD: {worst.observation.label} is {100 * worst.residual:+.0f} % off; latency and bandwidth alone do not"
        " explain these times"
    )


def _readme(run: Run, verdicts: Sequence[str], groups: Groups) -> str:
    group_option = " --comm-group-configuration=groups.json" if groups.ranks else ""
    fits = "\n".join(f"  {line}" for line in verdicts)
    return f"""Charkha run {run.manifest.run_id} for ASTRA-sim (analytical backend). In this folder:

  AstraSim_Analytical_Congestion_Unaware --workload-configuration={PREFIX}{group_option} \\
    --system-configuration=system-replay.json --network-configuration=network.yml \\
    --remote-memory-configuration=memory.json

replays what was measured; system-simulate.json simulates the collectives on the fitted network instead. The
congestion-aware backend stores and forwards at the switch: there the time of a large message is twice that of the fit.

Fit of network.yml, details in fit.json:
{fits}
"""
