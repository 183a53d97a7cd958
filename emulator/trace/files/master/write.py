"""Writing a master file."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa

from emulator.host.parquet import write_parquet
from emulator.trace.files.master.layout import METADATA_KEY, PER_RANK, SCHEMA, VERSION, content_digest
from emulator.trace.meaning.communication_order import communication_dependencies
from emulator.trace.meaning.model import Communication, RankTrace, Workload

Step = tuple[str, int, tuple[int, ...]]
"""What the ranks of a program have in common: kind, size, what is waited for."""


@dataclass(frozen=True, slots=True)
class MasterFacts:
    """What was written: communications over all ranks, programs and rows that hold them."""

    ranks: int
    communications: int
    programs: int
    rows: int


def write_master(path: Path, workload: Workload, traces: Sequence[RankTrace], *, name: str) -> MasterFacts:
    """Write the communication of all ranks into one file.

    Args:
        path: the file; it appears when it is complete.
        workload, traces: the set as it is played, and as it was read.
        name: prefix of the files of the source.

    Raises:
        HostError: it cannot be written.
    """
    programs = _programs(workload)
    starts = {trace.rank: trace.start_micros for trace in traces}
    tables = [
        list(_rows(number, steps, ranks, workload, starts)) for number, (steps, ranks) in enumerate(programs.items())
    ]
    description: dict[str, Any] = {
        "version": VERSION,
        "name": name,
        "programs": list(programs.values()),
        "groups": [{"name": group.name, "ranks": group.ranks} for group in workload.groups],
    }
    description["sha256"] = content_digest(description, chain.from_iterable(tables))
    schema = SCHEMA.with_metadata({METADATA_KEY: json.dumps(description).encode()})
    write_parquet(path, schema, (pa.RecordBatch.from_pylist(rows, schema) for rows in tables))
    return MasterFacts(
        ranks=len(workload.programs),
        communications=sum(len(program.communications) for program in workload.programs),
        programs=len(programs),
        rows=sum(map(len, programs)),
    )


def _programs(workload: Workload) -> dict[tuple[Step, ...], list[int]]:
    """Programs → their ranks."""
    found: dict[tuple[Step, ...], list[int]] = defaultdict(list)
    for program in workload.programs:
        waits = communication_dependencies(program)
        steps = tuple(
            (node.kind.label, node.size_bytes, before)
            for node, before in zip(program.communications.values(), waits, strict=True)
        )
        found[steps].append(program.rank)
    return found


def _rows(
    number: int, steps: Sequence[Step], ranks: Sequence[int], workload: Workload, starts: dict[int, Any]
) -> Iterator[dict[str, Any]]:
    columns = [list(workload.programs[rank].communications.values()) for rank in ranks]
    for at, (kind, size_bytes, waits) in enumerate(steps):
        nodes = [column[at] for column in columns]
        facts = [_facts(node, int(starts[rank][node.row])) for rank, node in zip(ranks, nodes, strict=True)]
        row = {"program": number, "number": at, "kind": kind, "size_bytes": size_bytes, "waits_for": waits}
        yield row | {name: _shared([one[name] for one in facts]) for name in PER_RANK}


def _facts(node: Communication, start_micros: int) -> dict[str, Any]:
    return {
        "node_id": node.node_id,
        "name": node.name,
        "group": node.group,
        "peer": node.peer,
        "tag": node.tag,
        "root": node.root,
        "send_splits": node.send_splits,
        "recv_splits": node.recv_splits,
        "start_micros": start_micros,
        "duration_micros": node.traced_duration_micros,
    }


def _shared(values: list[Any]) -> list[Any]:
    return values[:1] if all(value == values[0] for value in values) else values
