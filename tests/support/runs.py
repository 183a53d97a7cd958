"""Small runs made by hand: rows as the controller would record them."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from emulator.control.observations import FlowCounters, RankSummary
from emulator.results.run_folder.manifest import MANIFEST, Manifest, TraceFacts, Trials
from emulator.results.run_folder.reader import Run, read_run
from emulator.results.run_folder.schema import SAMPLES_SCHEMA, RunTable, to_batch
from emulator.results.run_folder.writer import RunWriter

MEASURED_ATTRIBUTES = {
    "charkha.duration_ns",
    "charkha.start_ns",
    "charkha.cct_ns",
    "charkha.samples_ns",
    "charkha.algorithm",
    "charkha.run_id",
    "charkha.traced_duration_micros",
}
"""What a measured trace adds to a communication node."""

Row = dict[str, Any]
_DEFAULTS: Row = {
    "iteration": 0,
    "rank": 0,
    "node_id": 1,
    "name": "ar",
    "kind": "all_reduce",
    "group": "world",
    "group_size": 2,
    "index_in_group": 0,
    "instance": 0,
    "peer": None,
    "size_bytes": 1000,
    "algorithm": "ring",
    "post_ns": 0,
    "done_ns": 100,
    "arrival_ns": None,
    "bytes_sent": 1000,
    "bytes_received": 1000,
    "early": False,
    "read_delay_ns": None,
    "core_wait_ns": None,
    "network_ns": None,
    "network_crossings": None,
    "stalled_ns": None,
    "port_ns": None,
    "traced_ns": None,
    "ideal_ns": None,
    "remaining_ideal_ns": None,
}


def row(**fields: Any) -> Row:
    """A sample; what is not given is an all-reduce of two ranks."""
    assert set(fields) <= set(_DEFAULTS), fields
    return _DEFAULTS | fields


def collective(posts: Sequence[int], dones: Sequence[int], **fields: Any) -> list[Row]:
    """The samples of all members, ranks 0 … n-1."""
    times = enumerate(zip(posts, dones, strict=True))
    size = {"group_size": len(posts)}
    return [row(**{"rank": rank, "post_ns": post, "done_ns": done} | size | fields) for rank, (post, done) in times]


def pair(post: int, arrival: int, *, received_post: int = 0, **fields: Any) -> list[Row]:
    """A send of rank 0 and its receive by rank 1, acknowledged 5 ns after the arrival."""
    send = row(**{"kind": "send", "rank": 0, "peer": 1, "post_ns": post, "done_ns": arrival + 5} | fields)
    recv = {"kind": "recv", "rank": 1, "peer": 0, "post_ns": received_post, "arrival_ns": arrival, "done_ns": arrival}
    return [send, row(**recv | fields)]


def columns(rows: Iterable[Row]) -> Mapping[str, list[Any]]:
    """Rows as `RunWriter.add` takes them."""
    rows = list(rows)
    return {name: [one[name] for one in rows] for name in SAMPLES_SCHEMA.names}


def table(rows: Iterable[Row]) -> pa.Table:
    """Rows as a samples table."""
    return pa.Table.from_batches([to_batch(SAMPLES_SCHEMA, columns(rows))])


def manifest(**fields: Any) -> Manifest:
    """The manifest of a run of two ranks."""
    facts = {
        "run_id": "20260102T030405-two",
        "created": "2026-01-02T03:04:05+00:00",
        "command_line": ("charkha", "run", "two"),
        "seed": 1,
        "trace": TraceFacts(path="two", digest="00" * 32, ranks=2, nodes=4, communication_nodes=2),
        "trials": Trials(attempted=3, warmup=1, included=2),
    }
    return Manifest(**facts | fields)


def ranks(*spans: tuple[int, int], compute: int = 0, communication: int = 0, overlap: int = 0) -> list[RankSummary]:
    """How ranks 0 … n-1 spent an iteration, from (start, end)."""
    return [
        RankSummary(rank, start, end, compute_ns=compute, communication_ns=communication, overlap_ns=overlap)
        for rank, (start, end) in enumerate(spans)
    ]


def write_run(
    folder: Path,
    samples: Iterable[Row],
    *,
    iterations: Mapping[int, Sequence[RankSummary]] | None = None,
    flows: Sequence[FlowCounters] = (),
    **facts: Any,
) -> Run:
    """A closed run folder, read back."""
    with RunWriter(folder, manifest(**facts)) as writer:
        writer.add(RunTable.SAMPLES, columns(samples))
        for iteration, summaries in (iterations or {}).items():
            writer.add_iteration(iteration, summaries)
        writer.add_flows(flows)
    return read_run(folder)


def edited(tmp_path: Path, **changes: object) -> Path:
    folder = tmp_path / "run"
    write_run(folder, [])
    document = json.loads((folder / MANIFEST).read_text())
    (folder / MANIFEST).write_text(json.dumps(document | changes))
    return folder


def timed(*ccts: int, **fields: object) -> list[Row]:
    """An all-reduce of two ranks per iteration, with these times."""
    return [
        one for number, cct in enumerate(ccts) for one in collective([10, 0], [10 + cct, 5], iteration=number, **fields)
    ]
