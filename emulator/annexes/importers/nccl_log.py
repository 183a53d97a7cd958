"""Logs of NCCL (`NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,COLL`): a line for every call, and one when a rank begins.

One file may hold the lines of several processes, and a process may have a file of its own: lines say whose they are.

Source: NVIDIA/nccl at 5067397: src/enqueue.cc (line of a call), src/init.cc (Init lines), src/debug.cc (prefix).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

from emulator.annexes.importers.alignment import LossesOfRanks, assemble
from emulator.annexes.importers.communicators import Membership, World, find_world, natural_order
from emulator.annexes.importers.model import Fate, ImportedTrace, Importer, Losses, Version
from emulator.annexes.importers.recorded_calls import DATATYPE_BYTES, KINDS, RecordedCall, is_to_itself, nccl_operation
from emulator.annexes.importers.text_files import files_of_format, of_line, read_lines
from emulator.errors import TraceError

NAME = "nccl-log"
_CALL_BEGIN = re.compile(rb"NCCL INFO \w+: opCount ")
_PREFIX = rb"(?<![\w.-])(?P<host>[\w.-]{1,255}):(?P<pid>\d{1,10}):\d{1,10} \[(?P<device>\d{1,4})\] NCCL INFO "
_CALL = re.compile(
    rb"(?:\[(?P<time>\d{4}-\d\d-\d\d[ T][\d:.]+)\] )?" + _PREFIX + rb"(?P<name>\w+): opCount (?P<op>[0-9a-f]{1,16}) "
    rb"sendbuff \S+ recvbuff \S+ count (?P<count>\d{1,19}) datatype (?P<type>\d{1,3}) op \d+ root (?P<root>-1|\d{1,9}) "
    rb"comm (?P<comm>0x[0-9a-f]{1,16}) \[nranks=(?P<ranks>\d{1,9})\] stream (?P<stream>\S+)(?: .*)?$"
)
_MESSAGES = {"Send", "Recv"}
_INIT_BEGIN = re.compile(_PREFIX)
_INIT_END = re.compile(rb"- Init (?:START|COMPLETE)\s*$")
_NAME, _VALUE = re.compile(rb"[A-Za-z]\w*"), re.compile(rb"(?!-0)-?\d{1,20}|(?:0x)?[0-9a-f]{1,16}|\(nil\)")
_NUMBERS = {b"rank", b"nranks", b"cudaDev", b"nvmlDev", b"childCount", b"color", b"key"}
_OTHER_NAMES = {b"nRanks": b"nranks", b"splitCount": b"childCount"}
"""Older ones of what an Init line says."""
_KNOWN = {b"comm", b"commId", b"busId", b"parent", b"nNodes", b"localRanks", b"localRank", b"MNNVL", *_NUMBERS}

Process = tuple[str, int, int]
"""Host, process id, device."""


@dataclass(slots=True)
class _Line:
    """A call; `communicator` is unique in the job where Init lines name it, else None."""

    process: Process
    communicator: Hashable
    name: str
    op_count: int
    message_bytes: int
    root: int
    ranks: int
    stream: bytes
    time_ns: int | None
    where: str


@dataclass(slots=True)
class _Reading:
    """What was read so far."""

    lines: list[_Line] = field(default_factory=list)
    memberships: list[Membership] = field(default_factory=list)
    names: dict[tuple[str, int, bytes], tuple[Process, Hashable]] = field(default_factory=dict)
    """(host, process id, address) → device, and communicator as all processes know it."""
    files: dict[Process, list[str]] = field(default_factory=dict)
    losses: Losses = field(default_factory=Losses)


def is_nccl_log(head: bytes) -> bool:
    """Whether a file that begins so is a log of NCCL with calls or ranks in it."""
    return any(_CALL_BEGIN.search(line) or _init(line) for line in head.split(b"\n"))


def _init(line: bytes) -> tuple[re.Match[bytes], dict[bytes, bytes]] | None:
    """Process of an Init line, and the names and values that it says; None: it is none in a known form."""
    end = _INIT_END.search(line)
    begin = None if end is None else _INIT_BEGIN.search(line)
    if end is None or begin is None:
        return None
    *words, rest = line[begin.end() : end.start()].split(b" ")
    if words[:1] != [b"comm"]:  # the function, which older versions do not name
        words = words[1:] if words and _NAME.fullmatch(words[0]) else [b""]
    said = {_OTHER_NAMES.get(name, name): value for name, value in zip(words[::2], words[1::2], strict=False)}
    is_whole = len(words) == 2 * len(said) and said.keys() >= {b"comm", b"rank", b"nranks"}
    is_plain = all(_NAME.fullmatch(name) and _VALUE.fullmatch(value) for name, value in said.items())
    are_numbers = all(said[name].removeprefix(b"-").isdigit() for name in _NUMBERS & said.keys())
    return (begin, said) if is_whole and is_plain and are_numbers and not rest else None


def read_nccl_log(
    path: Path, *, ranks: int | None = None, on_rank: Callable[[int, int], None] | None = None
) -> ImportedTrace:
    """Read the logs of a folder, or one.

    Args:
        ranks: not needed: the logs say it.

    Raises:
        TraceError: there is no call, a line of a call cannot be read, or processes contradict each other.
    """
    reading = _Reading()
    for file in files_of_format(path, is_nccl_log):
        _read_file(file, reading)
    if not reading.lines:
        problem = "holds no call of NCCL: record with NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,COLL"
        raise TraceError(problem, path=path)
    world = _world(reading)
    losses_of: LossesOfRanks = defaultdict(Losses)
    without_beginning = _without_beginning(reading, world)
    calls = _calls(reading, world, losses_of)
    files = {world.rank_of[process]: names for process, names in reading.files.items()}
    return assemble(
        path,
        calls,
        source_format=NAME,
        mode="log",
        world_size=world.size,
        files=files,
        losses=reading.losses,
        losses_of=losses_of,
        on_rank=on_rank,
        without_beginning=without_beginning,
    )


def _read_file(path: Path, reading: _Reading) -> None:
    for number, line, is_whole in read_lines(path):
        if _CALL_BEGIN.search(line):
            found = _CALL.search(line)
            where = of_line(path, number)
            if found is None and not is_whole:
                reading.losses.count(Fate.DROPPED, "calls whose line is cut off at the end of the file", where)
            elif found is None:
                raise TraceError("a call of NCCL in a form that is not known", path=where)
            else:
                _add_call(found, where, path, reading)
        elif _INIT_END.search(line):
            init = _init(line)
            if init is None:
                raise TraceError("an Init line of NCCL in a form that is not known", path=of_line(path, number))
            _add_membership(*init, of_line(path, number), path, reading)


def _add_membership(
    begin: re.Match[bytes], said: dict[bytes, bytes], where: str, path: Path, reading: _Reading
) -> None:
    host, pid = begin["host"].decode(), int(begin["pid"])
    process = (host, pid, int(said.get(b"cudaDev", begin["device"])))
    communicator: Hashable
    if {b"parent", b"childCount", b"color"} <= said.keys():
        _, above = reading.names.get((host, pid, said[b"parent"]), (process, None))
        communicator = (above, int(said[b"childCount"]), int(said[b"color"]))
    elif b"commId" in said:
        communicator = said[b"commId"].decode()
    else:
        communicator = f"the only one of {int(said[b'nranks'])} ranks"
    for name in sorted(said.keys() - _KNOWN):
        reading.losses.count(Fate.DROPPED, f"{name.decode()!r} in Init lines, which is not known", where)
    reading.names[host, pid, said[b"comm"]] = (process, communicator)
    reading.memberships.append(Membership(process, communicator, int(said[b"rank"]), int(said[b"nranks"]), where))
    _note_device(begin, process, where, reading)
    _note_file(process, path, reading)


def _note_device(begin: re.Match[bytes], process: Process, where: str, reading: _Reading) -> None:
    if int(begin["device"]) != process[2]:
        what = "lines whose device is not that of their communicator: the communicator's"
        reading.losses.count(Fate.INFERRED, what, where)


def _add_call(found: re.Match[bytes], where: str, path: Path, reading: _Reading) -> None:
    host, pid = found["host"].decode(), int(found["pid"])
    default: tuple[Process, Hashable] = ((host, pid, int(found["device"])), None)
    process, communicator = reading.names.get((host, pid, found["comm"]), default)
    _note_device(found, process, where, reading)
    element = DATATYPE_BYTES.get(int(found["type"]))
    if element is None:
        known = f"{min(DATATYPE_BYTES)} to {max(DATATYPE_BYTES)}"
        raise TraceError(f"data type {int(found['type'])} is not known; known: {known}", path=where)
    reading.lines.append(
        _Line(
            process,
            communicator,
            found["name"].decode(),
            int(found["op"], 16),
            int(found["count"]) * element,
            int(found["root"]),
            int(found["ranks"]),
            found["stream"],
            _time_ns(found["time"]),
            where,
        )
    )
    _note_file(process, path, reading)


def _note_file(process: Process, path: Path, reading: _Reading) -> None:
    names = reading.files.setdefault(process, [])
    if str(path) not in names:
        names.append(str(path))


def _time_ns(text: bytes | None) -> int | None:
    """A time stamp with fractions of a second; without them it says nothing about what happens within one."""
    if text is None or b"." not in text:
        return None
    try:
        time = datetime.fromisoformat(text.decode()).replace(tzinfo=UTC)
    except ValueError:
        return None
    return int(time.timestamp()) * 1_000_000_000 + time.microsecond * 1000


def _world(reading: _Reading) -> World:
    """The world by the Init lines; without them, the only communicator, with ranks in the order of processes."""
    unnamed = next((line for line in reading.lines if line.communicator is None), None)
    if unnamed is None:
        return find_world(reading.memberships, reading.losses)
    if reading.memberships:
        problem = "a call in a communicator of which no Init line is found, so its ranks are not known: record with"
        problem += " NCCL_DEBUG_SUBSYS=INIT,COLL, all processes from their first communicator on"
        raise TraceError(problem, path=unnamed.where)
    processes = sorted({line.process for line in reading.lines}, key=natural_order)
    other = next((line for line in reading.lines if line.ranks != len(processes)), None)
    if other is not None:
        problem = f"a communicator of {other.ranks} ranks, and the log is of {len(processes)}: which ones they are is "
        raise TraceError(f"{problem}in the Init lines: record with NCCL_DEBUG_SUBSYS=INIT,COLL", path=other.where)
    what = "ranks are not recorded (no Init lines): by host, process and device"
    reading.losses.count(Fate.GUESSED, what, reading.lines[0].where, number=len(processes))
    return World(len(processes), {process: rank for rank, process in enumerate(processes)}, {None: ()})


def _calls(reading: _Reading, world: World, losses_of: LossesOfRanks) -> dict[int, list[RecordedCall]]:
    calls: dict[int, list[RecordedCall]] = {world.rank_of[process]: [] for process in reading.files}
    counts: defaultdict[tuple[int, Hashable], int] = defaultdict(int)
    _check_op_counts(reading, world)
    with_messages = {line.communicator for line in reading.lines if line.name in _MESSAGES}
    for line in reading.lines:
        rank = world.rank_of[line.process]
        call = _call(line, rank, world, losses_of[rank])
        if call is not None:
            if call.operation.kind.is_collective:
                counts[rank, line.communicator] += 1
                # Each rank counts its own messages, too: with some, collectives are numbered by their order instead.
                is_ordered = line.communicator in with_messages
                call.number = counts[rank, line.communicator] if is_ordered else line.op_count
            calls[rank].append(call)
    return calls


def _without_beginning(reading: _Reading, world: World) -> set[int]:
    """Ranks whose first calls in a communicator with messages are lost: they count from 0.

    Raises:
        TraceError: there are collectives in it, too, so that nothing tells which ones those of this rank are.
    """
    names, first = defaultdict[Hashable, set[str]](set), dict[tuple[int, Hashable], _Line]()
    for line in reading.lines:
        names[line.communicator].add(line.name)
        rank = world.rank_of[line.process]
        if line.op_count < first.setdefault((rank, line.communicator), line).op_count:
            first[rank, line.communicator] = line
    found = set()
    for (rank, communicator), line in first.items():
        if line.op_count and names[communicator] & _MESSAGES:
            if names[communicator] - _MESSAGES:
                problem = f"is the first call of this rank in its communicator, with opCount {line.op_count:x}: those"
                problem += " before are lost, and with messages among them nothing tells which collective is which"
                raise TraceError(f"{problem}: record again", path=line.where)
            found.add(rank)
    return found


def _check_op_counts(reading: _Reading, world: World) -> None:
    """Refuse a log that lacks a line: NCCL counts the calls of a rank in a communicator, and a lost one leaves a gap.

    Raises:
        TraceError: a rank lacks a count between two of its own that another rank has.
    """
    seen: defaultdict[Hashable, defaultdict[int, dict[int, str]]] = defaultdict(lambda: defaultdict(dict))
    for line in reading.lines:
        seen[line.communicator][world.rank_of[line.process]].setdefault(line.op_count, line.where)
    for ranks in seen.values():
        everywhere = sorted({count for own in ranks.values() for count in own})
        _count_jumps(everywhere, next(iter(ranks.values())), reading.losses)
        for rank, own in sorted(ranks.items()):
            first, last = min(own), max(own)
            lost = next((count for count in everywhere if first < count < last and count not in own), None)
            if lost is not None:
                before = own[max(count for count in own if count < lost)]
                problem = f"the call with opCount {lost:x}, which other ranks have, is missing after this one"
                raise TraceError(f"{before}: {problem}: the log has lost lines; record again", rank=rank)


def _count_jumps(counts: Sequence[int], places: Mapping[int, str], losses: Losses) -> None:
    """Count calls that no rank has.

    Args:
        counts: of the calls of all ranks in a communicator, ascending.
        places: of those of one rank.
    """
    for before, after in pairwise(counts):
        if after - before > 1:
            what = "calls that the log lacks of all ranks: opCount jumps"
            losses.count(Fate.DROPPED, what, places.get(after, ""), number=after - before - 1)


def _call(line: _Line, rank: int, world: World, losses: Losses) -> RecordedCall | None:
    kind = KINDS.get(line.name)
    if kind is None:
        losses.count(Fate.DROPPED, f"calls of unknown name {line.name[:40]!r}", line.where)
        return None
    members = world.ranks_of[line.communicator]
    size = len(members) or world.size
    if size != line.ranks:
        raise TraceError(f"a communicator of {line.ranks} ranks, which had {size} at its start", path=line.where)
    operation = nccl_operation(
        kind,
        message_bytes=line.message_bytes,
        ranks=line.ranks,
        root=line.root,
        where=line.where,
        communicator=line.communicator,
        members=members,
    )
    if is_to_itself(operation, rank, losses):
        return None
    return RecordedCall(
        operation,
        stream=line.stream,
        batch=None if kind.is_collective else (line.communicator, line.op_count),
        start_ns=line.time_ns,
    )


_NCCL = Version("NCCL", re.compile(rb"NCCL version (\d{1,3}\.\d{1,3})"), tuple(f"2.{minor}" for minor in range(18, 29)))
NCCL_LOG = Importer(NAME, "logs of NCCL with NCCL_DEBUG=INFO", is_nccl_log, read_nccl_log, (_NCCL,))
