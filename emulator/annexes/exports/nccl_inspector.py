"""A run as NCCL's Inspector plugin writes one: a JSON object a line for every collective and message of a rank.

The time of a record is that of its rank, from post to done: as on a GPU it holds the wait for late peers. Sizes count
as NCCL counts them: of an all-gather what a rank gives, of a reduce-scatter what it gets.

Source: NVIDIA/nccl at 5067397, plugins/profiler/inspector: inspector_json.cc (fields), inspector.cc (bandwidths).
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from emulator.annexes.exports.formats import Format
from emulator.errors import ResultError
from emulator.host.files import writing
from emulator.results.run_folder.manifest import Manifest
from emulator.results.run_folder.reader import Run
from emulator.results.run_folder.schema import RunTable
from emulator.results.statistics.method.nccl_conventions import busbw_factor, nccl_size
from emulator.results.statistics.samples.measured_rows import read_measured
from emulator.trace.meaning.model import CommKind
from emulator.trace.meaning.names import COLLECTIVES
from emulator.units import NS_PER_US

FORMAT_VERSION = "v4.0"
_COLUMNS = (
    *("iteration", "rank", "kind", "group", "group_size", "index_in_group", "instance", "peer", "size_bytes"),
    *("post_ns", "done_ns", "early"),
)
_NAMES: Mapping[CommKind, str] = {
    CommKind.ALL_REDUCE: "AllReduce",
    CommKind.REDUCE: "Reduce",
    CommKind.BROADCAST: "Broadcast",
    CommKind.ALL_GATHER: "AllGather",
    CommKind.REDUCE_SCATTER: "ReduceScatter",
    CommKind.REDUCE_SCATTER_BLOCK: "ReduceScatter",
    CommKind.ALL_TO_ALL: "All2All",
    CommKind.GATHER: "Gather",
    CommKind.SCATTER: "Scatter",
    CommKind.SEND: "Send",
    CommKind.RECV: "Recv",
}
_PARTS = (CommKind.REDUCE_SCATTER, CommKind.REDUCE_SCATTER_BLOCK, CommKind.SCATTER, CommKind.ALL_TO_ALL)
"""NCCL counts the part of one member."""
_KIND_OF: Mapping[str, CommKind] = {**COLLECTIVES, "send": CommKind.SEND, "recv": CommKind.RECV}
_Row = dict[str, Any]


def write(run: Run, target: Path) -> Sequence[str]:
    """Write the records of the measured iterations, those of a rank in the order of their posts.

    Returns:
        Notes on what NCCL has no record for.

    Raises:
        ResultError: the run cannot be read, or has no record to write.
        HostError: the file cannot be written.
    """
    rows: list[_Row] = read_measured(run, RunTable.SAMPLES, _COLUMNS).to_pylist()
    kept = [row for row in rows if _KIND_OF.get(row["kind"]) in _NAMES and not row["early"] and row["group_size"] > 1]
    if not kept:
        raise ResultError("has no measured collective or message that NCCL knows", path=run.folder)
    with writing(target), target.open("w", encoding="utf-8") as file:
        for record in _records(kept, run.manifest):
            file.write(json.dumps(record, separators=(",", ":")) + "\n")
    left_out = Counter("payload that came early" if row["early"] else row["kind"] for row in rows) - Counter(
        "payload that came early" if row["early"] else row["kind"] for row in kept
    )
    return [f"{count:,} records were omitted: {what}" for what, count in sorted(left_out.items())]


def _records(rows: Sequence[_Row], manifest: Manifest) -> Iterator[Mapping[str, Any]]:
    members = _members(rows)
    begin_ns = min(row["post_ns"] for row in rows)
    created_us = int(datetime.fromisoformat(manifest.created).timestamp() * 1e6)
    numbers: Counter[tuple[Any, ...]] = Counter()
    for row in sorted(rows, key=lambda row: (row["rank"], row["post_ns"], row["instance"])):
        kind = _KIND_OF[row["kind"]]
        key = (row["rank"], row["group"], kind if kind.is_collective else None)
        done_us = created_us + (row["done_ns"] - begin_ns) // NS_PER_US
        start_us = created_us + (row["post_ns"] - begin_ns) // NS_PER_US
        ranks = members[row["group"], row["instance"]] if kind.is_collective else range(manifest.trace.ranks)
        yield {
            "header": _header(row, ranks, manifest),
            "metadata": {
                "inspector_output_format_version": FORMAT_VERSION,
                "git_rev": f"charkha {manifest.versions.get('charkha', '')}".strip(),
                "rec_mechanism": "charkha",
                "dump_timestamp_us": done_us,
                "hostname": _host(manifest, row["rank"]),
                "pid": row["rank"] + 1,
            },
            ("coll_perf" if kind.is_collective else "p2p_perf"): _performance(
                row, kind, numbers[key] + (not kind.is_collective), start_us, done_us
            ),
        }
        numbers[key] += 1


def _members(rows: Sequence[_Row]) -> Mapping[tuple[str, int], tuple[int, ...]]:
    """Ranks of the group of every collective, ascending."""
    found: defaultdict[tuple[str, int], set[int]] = defaultdict(set)
    for row in rows:
        found[row["group"], row["instance"]].add(row["rank"])
    return {key: tuple(sorted(ranks)) for key, ranks in found.items()}


def _header(row: _Row, ranks: Sequence[int], manifest: Manifest) -> Mapping[str, Any]:
    whole = len(ranks) == manifest.trace.ranks
    name = "world" if whole and not row["group"] else row["group"] or "world"
    digest = hashlib.sha256(f"{manifest.run_id} {name} {list(ranks)}".encode()).hexdigest()
    return {
        "id": f"0x{digest[:14]}",
        "comm_name": name,
        "rank": list(ranks).index(row["rank"]),
        "n_ranks": len(ranks),
        "nnodes": max(1, len({_place(manifest, rank) for rank in ranks})),
    }


def _place(manifest: Manifest, rank: int) -> int:
    """Number of the rank's host in the topology."""
    places = manifest.topology.get("host_index", ())
    return int(places[rank]) if rank < len(places) else 0


def _host(manifest: Manifest, rank: int) -> str:
    """The rank's host in the topology; if that has only one, the machine."""
    hosts = manifest.topology.get("hosts", ())
    if len(hosts) > 1:
        return str(hosts[_place(manifest, rank)]["name"])
    return next((one.facts["hostname"] for one in manifest.hosts if "hostname" in one.facts), "charkha")


def _performance(row: _Row, kind: CommKind, number: int, start_us: int, done_us: int) -> Mapping[str, Any]:
    size, members = row["size_bytes"], row["group_size"] if kind.is_collective else 2
    elapsed_ns = row["done_ns"] - row["post_ns"]
    algbw = nccl_size(kind, size_bytes=size, members=members) / elapsed_ns if elapsed_ns > 0 else 0.0
    word = "coll" if kind.is_collective else "p2p"
    facts: dict[str, Any] = {word: _NAMES[kind], f"{word}_sn": number}
    if not kind.is_collective:
        facts["p2p_peer"] = row["peer"]
    return facts | {
        f"{word}_msg_size_bytes": size // members if kind in _PARTS else size,
        f"{word}_exec_time_us": max(1, round(elapsed_ns / NS_PER_US)),
        f"{word}_timing_source": "collective_cpu",
        f"{word}_algobw_gbs": round(algbw, 6),
        f"{word}_busbw_gbs": round(algbw * (busbw_factor(kind, members=members) or 0.0), 6),
        "event_trace_sn": {f"{word}_start_sn": 1, f"{word}_stop_sn": 2, "kernel_events": []},
        "event_trace_ts": {f"{word}_start_ts": start_us, f"{word}_stop_ts": done_us, "kernel_events": []},
    }


NCCL_INSPECTOR = Format("nccl-inspector", ".inspector.log", "JSON lines as NCCL's Inspector writes them", write)
