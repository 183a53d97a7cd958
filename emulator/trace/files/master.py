"""Master files, written and read: one Parquet table with the communication of all ranks of a trace set.

Ranks that perform the same operations with the same sizes and dependencies share a *program*, which is stored once. A
row is a communication of a program; rows are sorted by program and then in canonical order. What may differ between
the ranks of a program is a list: one entry if they agree, else one for each rank in ascending order.

| column | type | meaning |
|---|---|---|
| program | int32 | number of the program |
| number | int32 | of the communication in its program, from 0 in canonical order |
| kind | string | all_reduce … barrier, send, recv |
| size_bytes | int64 | Chakra's comm_size: input bytes of a rank |
| waits_for | list of int32 | numbers of communications in the program that must be done before it begins |
| node_id | list of uint64 | id in the source |
| name | list of string | name of the node |
| group | list of int32 | index into the groups of the metadata; 0 is the world, also for send and recv |
| peer | list of int32 | other rank of a send or recv, else -1 |
| tag | list of int64 | of a send or recv, else 0 |
| root | list of int32 | world rank of the root, else -1 |
| send_splits, recv_splits | list of lists of int64 | uneven all_to_all: bytes to and from each member |
| start_micros, duration_micros | list of int64 | as recorded, 0 if not |

The metadata of the table has, under `charkha.master`, a JSON object: `version`, `name` (prefix of the source's files),
`programs` (ranks of each), `groups` (name and ranks of each) and `sha256`: of the other entries and all rows, see
`content_digest`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from emulator.errors import TraceError
from emulator.host.parquet import write_parquet
from emulator.trace.meaning.model import CommKind, Communication, RankTrace, Workload
from emulator.trace.meaning.names import COLLECTIVES
from emulator.trace.meaning.order import communication_dependencies
from emulator.trace.synthetic.synthetic import NodeStreams, WorkNode

METADATA_KEY = b"charkha.master"
VERSION = 1
KINDS = {**COLLECTIVES, CommKind.SEND.label: CommKind.SEND, CommKind.RECV.label: CommKind.RECV}
PER_RANK = (
    "node_id",
    "name",
    "group",
    "peer",
    "tag",
    "root",
    "send_splits",
    "recv_splits",
    "start_micros",
    "duration_micros",
)
"""Columns whose values are lists over the ranks of a program."""
SCHEMA = pa.schema(
    [
        ("program", pa.int32()),
        ("number", pa.int32()),
        ("kind", pa.string()),
        ("size_bytes", pa.int64()),
        ("waits_for", pa.list_(pa.int32())),
        ("node_id", pa.list_(pa.uint64())),
        ("name", pa.list_(pa.string())),
        ("group", pa.list_(pa.int32())),
        ("peer", pa.list_(pa.int32())),
        ("tag", pa.list_(pa.int64())),
        ("root", pa.list_(pa.int32())),
        ("send_splits", pa.list_(pa.list_(pa.int64()))),
        ("recv_splits", pa.list_(pa.list_(pa.int64()))),
        ("start_micros", pa.list_(pa.int64())),
        ("duration_micros", pa.list_(pa.int64())),
    ]
)


def content_digest(description: Mapping[str, Any], rows: Iterable[Mapping[str, Any]]) -> str:
    """SHA-256 in hex over the JSON of the description, then of each row, with sorted keys and without spaces."""
    state = hashlib.sha256()
    for one in (description, *rows):
        state.update(json.dumps(one, sort_keys=True, separators=(",", ":")).encode())
    return state.hexdigest()


class GroupEntry(msgspec.Struct, frozen=True):
    """A process group."""

    name: str
    ranks: tuple[int, ...]


class Description(msgspec.Struct, frozen=True):
    """The metadata; see the top of this module."""

    version: int
    name: str
    programs: tuple[tuple[int, ...], ...]
    groups: tuple[GroupEntry, ...]
    sha256: str


@dataclass(frozen=True, slots=True)
class Master:
    """A master file: its description, and the rows of each program."""

    path: Path
    description: Description
    rows: Mapping[int, Sequence[Mapping[str, Any]]]

    @property
    def ranks(self) -> int:
        """Number of ranks."""
        return sum(map(len, self.description.programs))

    def streams(self) -> NodeStreams:
        """The set as nodes to be written: communications alone, ids from 1 in canonical order.

        The id of the source is kept in the attribute `charkha.source_id`; names of groups become numbers.
        """
        place = {
            rank: (number, at)
            for number, ranks in enumerate(self.description.programs)
            for at, rank in enumerate(ranks)
        }
        groups = {number: tuple(group.ranks) for number, group in enumerate(self.description.groups) if number}

        def nodes(rank: int) -> Iterator[WorkNode]:
            number, at = place[rank]
            return (self._node(row, at) for row in self.rows.get(number, ()))

        return NodeStreams(self.description.name, self.ranks, groups, nodes, {}, maker="charkha.master")

    def _node(self, row: Mapping[str, Any], at: int) -> WorkNode:
        mine = {name: row[name][at if len(row[name]) > 1 else 0] for name in PER_RANK}
        return WorkNode(
            node_id=row["number"] + 1,
            name=mine["name"],
            deps=tuple(other + 1 for other in row["waits_for"]),
            duration_micros=mine["duration_micros"],
            kind=KINDS[row["kind"]],
            size_bytes=row["size_bytes"],
            group=mine["group"],
            peer=mine["peer"],
            tag=mine["tag"],
            start_micros=mine["start_micros"],
            root=mine["root"],
            send_splits=_splits(mine["send_splits"]),
            recv_splits=_splits(mine["recv_splits"]),
            attributes={"charkha.source_id": mine["node_id"]},
        )


def read_master(path: Path, *, ranks: int | None = None) -> Master:
    """Read a master file.

    Args:
        ranks: how many ranks it must have.

    Raises:
        TraceError: it is damaged, no master file, of a newer version, or has another number of ranks.
    """
    try:
        table = pq.read_table(path)
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise TraceError(f"is not a Parquet file, or is damaged ({_first_line(error)})", path=path) from error
    description = _description(table, path)
    if not table.schema.equals(SCHEMA):
        raise TraceError("is a master file whose columns are not those of this version", path=path)
    _check_digest(table, path)
    master = Master(path, description, _rows_by_program(table))
    _check(master)
    if ranks is not None and ranks != master.ranks:
        raise TraceError(f"has {master.ranks} ranks, --ranks asks for {ranks}", path=path)
    return master


def _description(table: pa.Table, path: Path) -> Description:
    packed = (table.schema.metadata or {}).get(METADATA_KEY)
    if packed is None:
        raise TraceError(
            "is a Parquet file but not a master file: `charkha trace convert --to master` writes one", path=path
        )
    try:
        version = json.loads(packed).get("version")
        if version != VERSION:
            raise TraceError(f"is a master file of version {version}; this Charkha reads version {VERSION}", path=path)
        return msgspec.json.decode(packed, type=Description)
    except (ValueError, AttributeError, RecursionError) as error:
        raise TraceError(f"is a master file with damaged metadata ({_first_line(error)})", path=path) from error


def _check_digest(table: pa.Table, path: Path) -> None:
    described = json.loads(table.schema.metadata[METADATA_KEY])
    if described.pop("sha256") != content_digest(described, table.to_pylist()):
        raise TraceError("is a damaged master file: its content does not match the SHA-256 in its metadata", path=path)


def _rows_by_program(table: pa.Table) -> dict[int, list[dict[str, Any]]]:
    found: dict[int, list[dict[str, Any]]] = {}
    for row in table.to_pylist():
        found.setdefault(row["program"], []).append(row)
    return found


def _check(master: Master) -> None:
    """Check what the rest of the reader takes for granted; what a trace means is checked as for any other.

    Raises:
        TraceError: a rank is given twice or missing, or a row cannot be.
    """
    programs = master.description.programs
    if not re.fullmatch(r"[^/\0]{1,200}", master.description.name):
        raise TraceError("is a master file with an impossible file name", path=master.path)
    if sorted(rank for ranks in programs for rank in ranks) != list(range(master.ranks)) or not master.ranks:
        raise TraceError("is a master file whose programs do not have the ranks 0 … n-1 once each", path=master.path)
    if unknown := set(master.rows) - set(range(len(programs))):
        raise TraceError(f"has rows of program {min(unknown, key=str)}, which its metadata lacks", path=master.path)
    for program, rows in master.rows.items():
        for at, row in enumerate(rows):
            if problem := _problem(row, at, len(programs[program]), len(master.description.groups)):
                raise TraceError(f"row {at} of program {program}: {problem}", path=master.path)


def _problem(row: Mapping[str, Any], at: int, ranks: int, groups: int) -> str | None:
    if row["number"] != at:
        return f"has number {row['number']}: rows are missing or not in order"
    if row["kind"] not in KINDS:
        return f"has the unknown kind {row['kind']!r}"
    if not isinstance(row["size_bytes"], int) or row["waits_for"] is None:
        return "has no size, or no list of what it waits for"
    if not all(isinstance(other, int) and 0 <= other < at for other in row["waits_for"]):
        return f"waits for {row['waits_for'][:4]}, which are not earlier communications"
    for name in PER_RANK:
        values = row[name]
        if values is None or len(values) not in (1, ranks):
            return f"has {0 if values is None else len(values)} values of {name} for {ranks} ranks"
        if "splits" not in name and None in values:
            return f"lacks a value of {name}"
    if not all(0 <= group < max(groups, 1) for group in row["group"]):
        return "names a process group that the metadata lacks"
    if min(*row["start_micros"], *row["duration_micros"]) < 0:
        return "has a negative time"
    return _point_to_point_problem(row)


def _point_to_point_problem(row: Mapping[str, Any]) -> str | None:
    numbers = [*row["peer"], *(abs(tag) for tag in row["tag"]), *row["root"]]
    if KINDS[row["kind"]] in (CommKind.SEND, CommKind.RECV) and max(numbers) >= 1 << 31:
        return "has a peer or a tag that needs more than 32 bits"
    if any(
        None in splits or min(splits, default=0) < 0
        for name in ("send_splits", "recv_splits")
        for splits in row[name]
        if splits is not None
    ):
        return "has a split that cannot be a size"
    return None


def _splits(values: Sequence[int] | None) -> tuple[int, ...] | None:
    return None if values is None else tuple(values)


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


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
