"""A folder that ASTRA-sim reads as it is: workload, groups, system and network files, and what was fitted.

    trace.<rank>.et         the measured trace
    groups.json             process groups
    system-replay.json      every node takes its measured duration
    system-simulate.json    collectives are simulated on the fitted network, compute is replayed (only with a fit)
    network.yml             bandwidth and latency, fitted to the measured times
    memory.json             no remote memory
    fit.json                fit and simulated times with residuals, and what was changed for ASTRA-sim
    README.txt              the command lines, the same residuals as a table, and the limits of the simulator

ASTRA-sim aborts on collectives it does not know, nodes on the CPU, METADATA nodes and dangling dependencies. It waits
forever in an all-to-all whose ranks have different sizes, and ends with exit code 0 all the same. It identifies process
groups by positive integers. Changes are counted, and an attribute keeps the true type. Workload.cc and Statistics.cc
(extract_comp_comm_overlap: no times on the CPU) in astra-sim/workload show this.

Source: ASTRA-sim, astra-sim/system/Sys.cc (system), astra-network-analytical (network: GB/s of 2^30 B/s; a message
through a Switch costs twice the latency and, in the congestion-unaware backend, its size over the bandwidth once).

ASTRA-sim keeps one communication node in flight per rank, receives excepted; it queues the others. Its iteration is
therefore longer than the measured one if a trace overlaps communication. Source: ASTRA-sim,
astra-sim/workload/HardwareResource.cc.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from emulator.annexes.exports.astra_sim_fit import FittedPoint, fit
from emulator.annexes.exports.astra_sim_observe import observe
from emulator.annexes.exports.astra_sim_simulator import (
    SIMULATED,
    Dimension,
    Judged,
    SimulatedPoint,
    choose_algorithms,
    dimensions,
    judge,
    limits_of,
    simulated_kind,
    to_yaml,
)
from emulator.annexes.exports.formats import Format
from emulator.errors import ResultError
from emulator.host.files import writing
from emulator.results.run_folder.reader import Run
from emulator.results.run_folder.schema import RunTable
from emulator.results.statistics.samples.measured_rows import labels_and_codes, read_measured, to_ints
from emulator.trace.files.astra_sim import (
    Node,
    has_uneven_splits,
    is_cpu_op,
    make_compute,
    replace_attributes,
    takes_time,
)
from emulator.trace.files.et import read_rank
from emulator.trace.files.files import find_trace
from emulator.trace.files.records import read_nodes
from emulator.trace.files.rewrite import write_trace
from emulator.trace.meaning.model import CommKind, RankTrace
from emulator.trace.meaning.program import exclusive_micros
from emulator.units import NS_PER_US, format_duration

PREFIX = "trace"
TRUE_TYPE = "charkha.comm_type"
"""Attribute with the true collective of a node that ASTRA-sim gets as another one."""
_KNOWN = (*SIMULATED, CommKind.BROADCAST)


@dataclass(frozen=True, slots=True)
class PlayedNode:
    """A communication node as it was played.

    Attributes:
        kind: what it is.
        size_bytes: as played, so after any scaling; of an all-to-all, the mean over its ranks.
        was_even: whether all ranks of an all-to-all have that size.
        group: number of its process group, 0 for all ranks.
        members: ranks in it.
        peer: the other rank of a send or receive, else -1.
        pair: number of the pair of a send and its receive.
    """

    kind: CommKind
    size_bytes: int
    group: int
    members: int
    peer: int
    pair: int
    was_even: bool = True


@dataclass(frozen=True, slots=True)
class Groups:
    """Process groups by their number for ASTRA-sim, from 1; the group of all ranks has no number."""

    ranks: Mapping[int, Sequence[int]]


def write_workload(run: Run, folder: Path) -> tuple[Groups, Mapping[str, int]]:
    """Write `trace.<rank>.et`.

    Args:
        run: a closed run with its measured trace.
        folder: exists.

    Returns:
        The process groups, and change → number of nodes.

    Raises:
        ResultError: the samples are missing or damaged.
        TraceError: the measured trace is missing or damaged.
        HostError: a file cannot be written.
    """
    if not (run.folder / "trace").exists():
        raise ResultError("has no measured trace: only a run that was played to its end has one", path=run.folder)
    source = find_trace(run.folder / "trace", ranks=run.manifest.trace.ranks)
    played, groups = _played(run)
    stored = _stored(run)
    changes: Counter[str] = Counter()
    for rank, path in enumerate(source.paths):
        trace = read_rank(path, rank)
        micros = _micros(trace, stored[rank], _compute_factor(run))
        encoder = _Encoder(rank, played[rank], stored[rank].keys(), micros, changes)
        nodes = map(encoder.encode, read_nodes(path))
        write_trace(folder / f"{PREFIX}.{rank}.et", nodes, attributes={"schema": "charkha.astra-sim"})
    return groups, {what: count for what, count in changes.items() if count}


def _compute_factor(run: Run) -> float:
    label = run.manifest.scaling.compute
    return {"replay": 1.0, "skip": 0.0}[label] if label in ("replay", "skip") else float(label)


def _played(run: Run) -> tuple[Sequence[Mapping[int, PlayedNode]], Groups]:
    """Per rank node id → how it was played, from the last iteration; and the groups. Storage is not among them."""
    names = ["iteration", "rank", "node_id", "kind", "size_bytes", "instance", "peer"]
    table = run.table(RunTable.SAMPLES, names)
    labels, codes = labels_and_codes(table["kind"])
    columns = {name: to_ints(table[name]) for name in ("iteration", "rank", "size_bytes", "instance", "peer")}
    node_id = table["node_id"].to_numpy()
    is_network = np.array([not CommKind[label.upper()].is_storage for label in labels], bool)[codes]
    rows = np.flatnonzero(is_network & (columns["iteration"] == columns["iteration"].max(initial=-1)))
    members: dict[int, list[int]] = {}
    sizes: dict[int, list[int]] = {}
    for row in rows.tolist():
        members.setdefault(int(columns["instance"][row]), []).append(int(columns["rank"][row]))
        sizes.setdefault(int(columns["instance"][row]), []).append(int(columns["size_bytes"][row]))
    numbers: dict[tuple[int, ...], int] = {tuple(range(run.manifest.trace.ranks)): 0}
    found: list[dict[int, PlayedNode]] = [{} for _ in range(run.manifest.trace.ranks)]
    for row in rows.tolist():
        kind = CommKind[labels[codes[row]].upper()]
        instance = int(columns["instance"][row])
        ranks = tuple(sorted(members[instance]))
        group = numbers.setdefault(ranks, len(numbers)) if kind.is_collective else 0
        peer, size, own = int(columns["peer"][row]), int(columns["size_bytes"][row]), sizes[instance]
        is_even = kind is not CommKind.ALL_TO_ALL or len(set(own)) == 1
        found[int(columns["rank"][row])][int(node_id[row])] = PlayedNode(
            kind, size if is_even else -(-sum(own) // len(own)), group, len(ranks), peer, instance, is_even
        )
    return found, Groups({number: ranks for ranks, number in numbers.items() if number})


def _stored(run: Run) -> Sequence[Mapping[int, int]]:
    """Per rank the nodes whose files were played as traffic with a storage host → their duration in the trace, µs."""
    table = run.table(RunTable.SAMPLES, ["rank", "node_id", "kind", "traced_ns"])
    labels, codes = labels_and_codes(table["kind"])
    is_stored = np.array([CommKind[label.upper()].is_storage for label in labels], bool)[codes]
    found: list[dict[int, int]] = [{} for _ in range(run.manifest.trace.ranks)]
    columns = to_ints(table["rank"]), table["node_id"].to_numpy(), to_ints(table["traced_ns"])
    for rank, node_id, traced_ns in zip(*(column[is_stored].tolist() for column in columns), strict=True):
        found[rank][node_id] = max(0, traced_ns) // NS_PER_US
    return found


def _micros(trace: RankTrace, stored: Mapping[int, int], factor: float) -> Mapping[int, int]:
    """Node id → duration as played, µs: traffic with a storage host as measured, the rest exclusive and scaled."""
    ids = trace.node_id.tolist()
    rows = [row for row, node_id in enumerate(ids) if node_id in stored]
    start, duration = trace.start_micros.copy(), trace.duration_micros.copy()
    start[rows], duration[rows] = 0, [stored[ids[row]] for row in rows]  # of the trace, which its callers contain
    recorded = replace(trace, start_micros=start, duration_micros=duration)
    micros = np.rint(exclusive_micros(recorded) * factor).astype(np.int64)
    micros[rows] = trace.duration_micros[rows]
    return dict(zip(ids, micros.tolist(), strict=True))


class _Encoder:
    """Converts the nodes of one rank for ASTRA-sim and counts the changes."""

    def __init__(
        self,
        rank: int,
        played: Mapping[int, PlayedNode],
        stored: Collection[int],
        micros: Mapping[int, int],
        changes: Counter[str],
    ) -> None:
        self._rank, self._played, self._stored = rank, played, stored
        self._micros, self._changes = micros, changes

    def encode(self, node: Node) -> Node:
        self._drop_dangling(node)
        played = self._played.get(node.id)
        if played is None:
            self._encode_compute(node)
        elif played.kind.is_collective:
            self._encode_collective(node, played)
        else:
            src, dst = self._rank, played.peer
            src, dst = (src, dst) if played.kind is CommKind.SEND else (dst, src)
            facts = {"comm_size": played.size_bytes, "comm_src": src, "comm_dst": dst, "comm_tag": played.pair}
            replace_attributes(node, {"is_cpu_op": False, **facts})
        return node

    def _drop_dangling(self, node: Node) -> None:
        for dependencies in (node.ctrl_deps, node.data_deps):
            there = [one for one in dependencies if one in self._micros]
            self._changes["dependency on a node that is not there: dropped"] += len(dependencies) - len(there)
            dependencies[:] = there

    def _encode_compute(self, node: Node) -> None:
        """A node that is not traffic takes the time it was played with, on the device."""
        is_stored = node.id in self._stored
        is_cpu = is_cpu_op(node) and takes_time(node) and not is_stored
        self._changes["compute on the CPU: compute of the device, which runs one node at a time"] += is_cpu
        if takes_time(node):
            self._changes["duration as played: without that of called operators, scaled"] += int(
                node.duration_micros != self._micros[node.id]
            )
            node.duration_micros = self._micros[node.id]
        else:
            node.duration_micros = 0
        kind = make_compute(node)
        if is_stored:
            what = "traffic with a storage host: compute of the device for its measured duration"
            self._changes[f"{what}, without its bytes"] += 1
        elif kind is not None:
            self._changes[f"{kind} that is not traffic: a COMP_NODE of its duration"] += 1
        replace_attributes(node, {"is_cpu_op": False})

    def _encode_collective(self, node: Node, played: PlayedNode) -> None:
        kind = simulated_kind(played.kind)
        is_uneven = not played.was_even or has_uneven_splits(node)
        self._changes["all_to_all of uneven sizes: every rank sends the mean, in even parts"] += is_uneven
        facts: dict[str, bool | int | str] = {"is_cpu_op": False, "comm_size": played.size_bytes}
        if played.group:
            facts["pg_name"] = str(played.group)
        is_alone = played.members == 1  # it waits forever for others, and for shares of no bytes
        if kind not in _KNOWN or is_alone or played.size_bytes < played.members:
            why = " of a group of one" if is_alone else " of fewer bytes than ranks"
            what = played.kind.label + (why if kind in _KNOWN else "")
            self._changes[f"{what}: a broadcast, whose measured duration is replayed"] += 1
            facts[TRUE_TYPE], kind = int(played.kind), CommKind.BROADCAST
        replace_attributes(node, {"comm_type": int(kind), **facts})


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
