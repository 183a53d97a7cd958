"""Logs of NCCL's Inspector plugin: a JSON object a line for every collective and message that a rank completed.

Source: NVIDIA/nccl at 5067397, plugins/profiler/inspector (inspector_json.cc: fields; inspector.cc: what a size
counts), src/plugin/profiler.cc (numbers count each function of a communicator apart).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from emulator.annexes.importers.alignment import LossesOfRanks, assemble
from emulator.annexes.importers.communicators import Membership, World, find_world
from emulator.annexes.importers.model import Fate, ImportedTrace, Importer, Losses, Version
from emulator.annexes.importers.recorded_calls import KINDS, RecordedCall, is_to_itself, nccl_operation
from emulator.annexes.importers.text_files import files_of_format, of_line, read_lines
from emulator.errors import TraceError
from emulator.trace.meaning.meaning import ROOTED
from emulator.trace.meaning.model import CommKind
from emulator.units import NS_PER_US

NAME = "nccl-inspector"
KNOWN_FORMAT = "v4.0"
"""Output format of the source above. Records that a newer one adds are counted."""
_HEAD = re.compile(rb'^[^\S\n]*\{\s*"header"\s*:\s*\{\s*"id"\s*:', re.MULTILINE)
_KINDS = {"coll_perf", "p2p_perf"}
_KNOWN_KEYS = {"header", "metadata", *_KINDS}
_LATEST_US = 1 << 56


class _Header(msgspec.Struct):
    id: str
    rank: int
    n_ranks: int


class _Metadata(msgspec.Struct):
    hostname: str
    pid: int
    inspector_output_format_version: str = KNOWN_FORMAT


class _Times(msgspec.Struct):
    coll_start_ts: int | None = None
    p2p_start_ts: int | None = None


class _Collective(msgspec.Struct):
    name: str = msgspec.field(name="coll")
    number: int = msgspec.field(name="coll_sn")
    size_bytes: int = msgspec.field(name="coll_msg_size_bytes")
    duration_us: int = msgspec.field(name="coll_exec_time_us")
    event_trace_ts: _Times = msgspec.field(default_factory=_Times)


class _Message(msgspec.Struct):
    name: str = msgspec.field(name="p2p")
    number: int = msgspec.field(name="p2p_sn")
    peer: int = msgspec.field(name="p2p_peer")
    size_bytes: int = msgspec.field(name="p2p_msg_size_bytes")
    duration_us: int = msgspec.field(name="p2p_exec_time_us")
    event_trace_ts: _Times = msgspec.field(default_factory=_Times)


class _Record(msgspec.Struct):
    header: _Header
    metadata: _Metadata
    coll_perf: _Collective | None = None
    p2p_perf: _Message | None = None


@dataclass(frozen=True, slots=True)
class _InspectorLine:
    record: _Record
    where: str
    file: str


def is_nccl_inspector(head: bytes) -> bool:
    """Whether a file that begins so is a log of the Inspector."""
    return bool(_HEAD.search(head)) and b'"metadata"' in head


def read_nccl_inspector(
    path: Path, *, ranks: int | None = None, on_rank: Callable[[int, int], None] | None = None
) -> ImportedTrace:
    """Read the logs of a folder, or one.

    Args:
        ranks: not needed: the logs say it.

    Raises:
        TraceError: there is none, a line is damaged, or processes contradict each other.
    """
    losses = Losses()
    lines: list[_InspectorLine] = []
    for file in files_of_format(path, is_nccl_inspector):
        _read_file(file, lines, losses)
    if not lines:
        raise TraceError("holds no record of NCCL Inspector", path=path)
    process_of = _processes(lines)
    memberships = [
        Membership(
            process_of(line), line.record.header.id, line.record.header.rank, line.record.header.n_ranks, line.where
        )
        for line in lines
    ]
    world = find_world(memberships, losses)
    calls: defaultdict[int, list[RecordedCall]] = defaultdict(list)
    files: defaultdict[int, list[str]] = defaultdict(list)
    losses_of: LossesOfRanks = defaultdict(Losses)
    for line in lines:
        rank = world.rank_of[process_of(line)]
        if line.file not in files[rank]:
            files[rank].append(line.file)
        call = _call(line, rank, world, losses_of[rank])
        calls[rank].extend([call] if call is not None else [])
    return assemble(
        path,
        dict(calls),
        source_format=NAME,
        mode="inspector",
        world_size=world.size,
        files=files,
        losses=losses,
        losses_of=losses_of,
        on_rank=on_rank,
        key={kind: kind for kind in CommKind},
    )


def _read_file(path: Path, lines: list[_InspectorLine], losses: Losses) -> None:
    for number, text, is_whole in read_lines(path):
        if not text.strip():
            continue
        where = of_line(path, number)
        try:
            keys = msgspec.json.decode(text, type=dict[str, msgspec.Raw]).keys()
            kinds, others = keys & _KINDS, sorted(keys - _KNOWN_KEYS)
            record = msgspec.json.decode(text, type=_Record) if kinds or not others else None
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            if not is_whole:
                losses.count(Fate.DROPPED, "records cut off at the end of the file", where)
                continue
            raise TraceError(f"cannot be read as a record of NCCL Inspector: {error}", path=where) from error
        if record is not None and record.coll_perf is not None and record.p2p_perf is not None:
            raise TraceError("has both coll_perf and p2p_perf; a record has one of them", path=where)
        if record is not None and record.coll_perf is None and record.p2p_perf is None:
            raise TraceError("has neither coll_perf nor p2p_perf; a record has one of them", path=where)
        if others:
            which = "parts of records" if kinds else "records"
            losses.count(Fate.DROPPED, f"{which} of an unknown kind, {', '.join(others)[:60]}{_version(text)}", where)
        if record is not None:
            lines.append(_InspectorLine(record, where, str(path)))


class _Versioned(msgspec.Struct):
    metadata: _Metadata


def _version(text: bytes) -> str:
    """The format of a record and the known one, where they differ: not the file but this reader may be wrong."""
    try:
        found = msgspec.json.decode(text, type=_Versioned).metadata.inspector_output_format_version
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ""
    return "" if found == KNOWN_FORMAT else f" (Inspector output {found[:20]}; known: {KNOWN_FORMAT})"


def _processes(lines: list[_InspectorLine]) -> Callable[[_InspectorLine], tuple[str | int, ...]]:
    """What tells the devices of a job apart: the process; if one drives several devices, also the rank.

    Raises:
        TraceError: a process drives several devices, and there are several communicators: nothing tells which of
            their ranks belong together.
    """
    ranks: defaultdict[tuple[str, int, str], set[int]] = defaultdict(set)
    for line in lines:
        header, metadata = line.record.header, line.record.metadata
        ranks[metadata.hostname, metadata.pid, header.id].add(header.rank)
    if all(len(those) == 1 for those in ranks.values()):
        return lambda line: (line.record.metadata.hostname, line.record.metadata.pid)
    if len({line.record.header.id for line in lines}) > 1:
        shared = next(key for key, those in ranks.items() if len(those) > 1)
        line = next(line for line in lines if (line.record.metadata.hostname, line.record.metadata.pid) == shared[:2])
        problem = f"process {shared[1]} has {len(ranks[shared])} ranks of a communicator, and there are several of them"
        raise TraceError(f"{problem}: record with a process for each device", path=line.where)
    return lambda line: (line.record.metadata.hostname, line.record.metadata.pid, line.record.header.rank)


def _call(line: _InspectorLine, rank: int, world: World, losses: Losses) -> RecordedCall | None:
    header, message = line.record.header, line.record.p2p_perf
    said = line.record.coll_perf or message
    assert said is not None
    if not 0 <= said.duration_us < _LATEST_US or said.number < 0:
        problem = f"has a time of {said.duration_us} µs and the number {said.number}; neither can be negative, no time"
        raise TraceError(f"{problem} {_LATEST_US} µs or more", path=line.where)
    kind = KINDS.get(said.name)
    if kind is None or kind.is_collective is (message is not None):
        losses.count(Fate.DROPPED, f"records of unknown name {said.name[:40]!r}", line.where)
        return None
    operation = nccl_operation(
        kind,
        message_bytes=said.size_bytes,
        ranks=header.n_ranks,
        root=None if message is None else message.peer,
        where=line.where,
        communicator=header.id,
        members=world.ranks_of[header.id],
    )
    if is_to_itself(operation, rank, losses):
        return None
    if kind in ROOTED:
        losses.guess_root(kind, line.where)
    call = RecordedCall(operation, stream=header.id, duration_ns=said.duration_us * NS_PER_US)
    start_us = _start_us(said, line.where)
    if start_us:
        call.start_ns = start_us * NS_PER_US
        call.end_ns = call.start_ns + call.duration_ns
    if message is None:
        call.number = said.number
    else:
        call.batch = "messages"
        losses.count(Fate.INFERRED, "messages between two collectives: issued together", line.where)
    return call


def _start_us(said: _Collective | _Message, where: str) -> int | None:
    """When the call was issued: only verbose records say it."""
    start = said.event_trace_ts.coll_start_ts or said.event_trace_ts.p2p_start_ts
    if start is not None and not 0 <= start < _LATEST_US:
        raise TraceError(f"has a start at {start} µs, which is outside 0 to {_LATEST_US}", path=where)
    return start


_OUTPUT = Version(
    "Inspector output", re.compile(rb'"inspector_output_format_version"\s*:\s*"([^"]{1,20})"'), (KNOWN_FORMAT,)
)
NCCL_INSPECTOR = Importer(NAME, "logs of NCCL's Inspector plugin", is_nccl_inspector, read_nccl_inspector, (_OUTPUT,))
