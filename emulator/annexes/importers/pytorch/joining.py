"""Host traces and Kineto's traces: which are of one process, which calls are the same, and what executed them."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import PurePath
from typing import NamedTuple

from emulator.annexes.importers.documents import JsonDocument
from emulator.annexes.importers.model import Fate, Losses
from emulator.annexes.importers.pytorch.call import (
    CALL,
    LARGEST_WORLD,
    WITHOUT_TRAFFIC,
    Call,
    collective_kind,
    operation_of,
    squeezed,
)
from emulator.annexes.importers.pytorch.documents import Form, TraceIdentity, read_host
from emulator.annexes.importers.pytorch.host_trace import HostCall, HostTrace, Use
from emulator.annexes.importers.pytorch.kineto import KinetoCall, KinetoTrace, execution_kind
from emulator.annexes.importers.pytorch.kineto_events import Intervals, KinetoEvent, LibraryTask
from emulator.annexes.importers.pytorch.time_line import IssuedOperation
from emulator.errors import TraceError
from emulator.trace.meaning.model import CommKind

_ITSELF = {kind: kind for kind in CommKind}
_CARRIED_BY = {CommKind.REDUCE_SCATTER: CommKind.ALL_REDUCE}
"""Gloo carries out the one as the other."""


def is_traffic(call: Call, losses: Losses) -> bool:
    """Whether a call moves data; one of an unknown name is counted as dropped."""
    if call.kind is not None:
        return True
    if squeezed(call.name) not in WITHOUT_TRAFFIC and call.name not in ("", CALL):
        losses.count(Fate.DROPPED, f"calls of unknown name {call.name[:40]!r}", call.where)
    else:
        losses.count(Fate.MERGED, "calls without traffic, as wait")
    return False


def joined_calls(
    host: HostTrace | None, recorded: Sequence[HostCall], kineto: KinetoTrace, losses: Losses
) -> list[KinetoCall]:
    """Kineto's calls, each with what the host trace says of it if there is one.

    Args:
        recorded: its calls that move data.

    Raises:
        TraceError: the two traces have different calls.
    """
    timed = [one for one in kineto.calls() if is_traffic(one.call, losses)]
    if host is None:
        return timed
    if Counter(one.call.kind for one in timed) != Counter(one.call.kind for one in recorded):
        raise TraceError(
            f"has other collectives ({_listed(one.call for one in timed)}) than {host.name} "
            f"({_listed(one.call for one in recorded)}): record both over the same steps, or leave one out",
            path=kineto.name,
        )
    host_of = _by_record_id(timed, recorded)
    left = [one for one in timed if id(one) not in host_of]
    if left:
        what = "calls joined by their order, as record ids do not agree"
        losses.count(Fate.INFERRED, what, left[0].call.where, number=len(left))
        host_of |= _by_order(left, recorded, host_of)
    return [one._replace(call=host_of[id(one)].call.completed_by(one.call)) for one in timed]


def _by_record_id(timed: Sequence[KinetoCall], recorded: Sequence[HostCall]) -> dict[int, HostCall]:
    """Kineto's call (its identity) → the same one of the host."""
    by_id = {one.record_id: one for one in timed if one.record_id is not None}
    pairs = ((by_id.get(one.record_id), one) for one in recorded)
    return {id(mine): theirs for mine, theirs in pairs if mine is not None and mine.call.kind is theirs.call.kind}


def _by_order(
    timed: Sequence[KinetoCall], recorded: Sequence[HostCall], known: Mapping[int, HostCall]
) -> dict[int, HostCall]:
    """The rest: the next call of the same kind, if possible on the same thread and of the same size.

    On the thread of the backward pass record ids differ in some versions of PyTorch; its calls are in the same order.
    """
    taken = {one.node_id for one in known.values()}
    left: defaultdict[CommKind | None, list[HostCall]] = defaultdict(list)
    for one in recorded:
        if one.node_id not in taken:
            left[one.call.kind].append(one)
    thread_of: dict[object, int] = {}
    found = {}
    for mine in timed:
        candidates = left[mine.call.kind]
        thread = thread_of.get(mine.event.tid)
        best = min(
            range(len(candidates)),
            key=lambda at: (
                thread is not None and candidates[at].thread != thread,
                _differ(candidates[at].call.sent_bytes, mine.call.sent_bytes),
            ),
        )
        theirs = found[id(mine)] = candidates.pop(best)
        thread_of.setdefault(mine.event.tid, theirs.thread)
    return found


def _differ(one: int | None, other: int | None) -> bool:
    return one is not None and other is not None and one != other


def issued_operations(
    kineto: KinetoTrace, calls: Sequence[KinetoCall], uses: Sequence[Use], losses: Losses
) -> list[IssuedOperation]:
    """Every communication of a rank with its kernels, or the library's record of its execution.

    Args:
        uses: what the host trace says of who uses the results.
    """
    tasks, lone = _library_tasks(kineto, calls)
    executions = _executions(kineto, calls)
    consumers = _consumers(uses, kineto, calls)
    issued = []
    for number, one in enumerate(calls):
        execution = executions.get(number)
        call = one.call
        if call.sent_bytes is None and execution is not None:
            call = _completed(call, kineto.annotation_call(execution))
        operation = operation_of(call, losses)
        if operation is not None:
            read_by = consumers.get(number, ())
            issued.append(IssuedOperation(one.event, operation, tasks.get(number, ()), execution, read_by))
    for task in lone:
        found = kineto.kernel_call(task.event)
        operation = None if found is None or found.kind is None else operation_of(found, losses)
        if operation is None:
            losses.count(
                Fate.DROPPED,
                "kernels of the library without a call: size and group are unknown",
                kineto.where(task.event),
            )
        else:
            issued.append(IssuedOperation(task.launch or task.event, operation, (task,)))
    issued.sort(key=lambda one: one.event.ts)
    return issued


def _library_tasks(
    kineto: KinetoTrace, calls: Sequence[KinetoCall]
) -> tuple[Mapping[int, Sequence[LibraryTask]], list[LibraryTask]]:
    """Call → its kernels, and kernels without a call.

    A kernel that was launched outside of all calls belongs to those before it on the thread that have none: calls
    between the start and the end of coalescing are executed together.
    """
    found: defaultdict[int, list[LibraryTask]] = defaultdict(list)
    lone = []
    intervals = Intervals(one.event for one in calls)
    for task in kineto.events.library:
        within: list[int] = []
        if task.launch is not None:
            number = intervals.around(task.launch)
            within = _waiting(intervals.before(task.launch), found) if number is None else [number]
        for number in within:
            found[number].append(task)
        if not within:
            lone.append(task)
    return found, lone


def _waiting(before: Iterable[int], found: Mapping[int, object]) -> list[int]:
    """The last calls of a thread that have no kernel yet."""
    return list(takewhile(lambda number: number not in found, before))[::-1]


def _executions(kineto: KinetoTrace, calls: Sequence[KinetoCall]) -> dict[int, KinetoEvent]:
    """Call → the library's record of its execution: the first one after it of the same kind that is not taken."""
    left: defaultdict[CommKind | None, list[KinetoEvent]] = defaultdict(list)
    for one in kineto.executions():
        left[collective_kind(execution_kind(one))].append(one)
    found: dict[int, KinetoEvent] = {}
    for carried_by, is_executed in ((_CARRIED_BY, _in_parts), (_ITSELF, _whole), (_CARRIED_BY, _whole)):
        for number, call in enumerate(calls):
            kind = None if call.call.kind is None else carried_by.get(call.call.kind)
            if number in found or kind is None:
                continue
            most = max(1, len(call.call.sent_elements or ()))
            for at, first in enumerate(left[kind]):
                following = left[kind][at : at + most]
                count = is_executed(kineto, following, call.call) if first.ts >= call.event.ts else 0
                if count:
                    end = max(one.end for one in following[:count])
                    found[number] = replace(first, dur=end - first.ts)
                    del left[kind][at : at + count]
                    break
    return found


def _completed(call: Call, execution: Call) -> Call:
    """A call with what the library recorded of its execution, which may be that of its first tensor alone."""
    elements, theirs = sum(call.sent_elements or ()), sum(execution.sent_elements or ())
    completed = call.completed_by(execution)
    if elements and theirs and execution.sent_bytes is not None:
        completed.sent_bytes = elements * (execution.sent_bytes // theirs)
    return completed


def _in_parts(kineto: KinetoTrace, executions: Sequence[KinetoEvent], call: Call) -> int:
    """How many of the next executions are of the tensors of a call one by one, as Gloo reduces and scatters; or 0."""
    elements = call.sent_elements or ()
    said = [kineto.annotation_call(one).sent_elements for one in executions]
    return len(elements) if len(elements) > 1 and said == [(count,) for count in elements] else 0


def _whole(kineto: KinetoTrace, executions: Sequence[KinetoEvent], call: Call) -> int:
    """1 if the next execution is that of a call, else 0."""
    said = kineto.annotation_call(executions[0])
    expected = call.received_bytes if call.kind is CommKind.RECV else call.sent_bytes
    if said.sent_bytes is None or expected is not None:
        return int(said.sent_bytes in (None, expected))
    mine, theirs = call.sent_elements, said.sent_elements
    return int(mine is None or theirs is None or sum(mine) == sum(theirs))


def _consumers(uses: Sequence[Use], kineto: KinetoTrace, calls: Sequence[KinetoCall]) -> dict[int, list[KinetoEvent]]:
    """Call → the first operator that reads its result, if both traces number operators alike."""
    numbers = {one.record_id: number for number, one in enumerate(calls) if one.record_id is not None}
    owner: dict[int, int] = {}
    found: dict[int, list[KinetoEvent]] = {}
    for use in uses:
        number = numbers.get(use.record_id)
        event = kineto.events.recorded.get(use.record_id)
        if number is not None:
            owner.update(dict.fromkeys(calls[number].call.writes or (), number))
        elif event is not None:
            for storage in use.storages & owner.keys():
                if event.ts > calls[owner[storage]].event.end:
                    found.setdefault(owner.pop(storage), []).append(event)
    return {number: those[:1] for number, those in found.items()}


def _listed(calls: object) -> str:
    counts = Counter(one.kind.label for one in calls if one.kind is not None)  # type: ignore[attr-defined]
    return ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items())) or "none"


_MOST_DIGITS = 18
_NUMBER = re.compile(r"\d+")


@dataclass(slots=True)
class Process:
    """The traces of one process; at least one of them."""

    rank: int
    host: TraceIdentity | None
    kineto: TraceIdentity | None

    @property
    def names(self) -> list[str]:
        """Names of the documents."""
        return [one.name for one in (self.host, self.kineto) if one is not None]

    @property
    def file_bytes(self) -> int:
        """Size of the documents as they are on disk."""
        return sum(one.document.file_bytes for one in (self.host, self.kineto) if one is not None)


def processes(traces: Iterable[TraceIdentity], losses: Losses) -> list[Process]:
    """Traces by process, ascending ranks.

    The rank is what Kineto says, else what the host's records of calls say, else the number in which the files' names
    differ. Host and Kineto traces belong together if they have the same process id, else the same rank.

    Raises:
        TraceError: a rank is unknown, or has several traces of a kind.
    """
    hosts: list[TraceIdentity] = []
    kinetos: list[TraceIdentity] = []
    for trace in traces:
        (hosts if trace.form is Form.HOST else kinetos).append(trace)
    surveys = _Surveys()
    hosts = _without_linked(hosts, surveys, losses)
    numbers = {**_numbers_in_names(hosts), **_numbers_in_names(kinetos)}
    found: dict[int, Process] = {}
    for kineto in kinetos:
        rank = _rank(kineto, kineto.rank, numbers, losses)
        if rank in found:
            raise _twice(kineto, rank, found[rank].names)
        found[rank] = Process(rank, None, kineto)
    by_pid = _by_pid(found.values())
    for host in hosts:
        process = by_pid.get(host.pid)
        if process is None:
            rank = _rank(host, surveys[host.document].rank, numbers, losses)
            process = found.setdefault(rank, Process(rank, None, None))
        if process.host is not None:
            raise _twice(host, process.rank, [process.host.name])
        process.host = host
    return [found[rank] for rank in sorted(found)]


class _Survey(NamedTuple):
    """What a host trace says of its process only in its records."""

    rank: int | None
    is_linked: bool


class _Surveys(dict[JsonDocument, _Survey]):
    """Made when they are asked for: they take reading a whole document."""

    def __missing__(self, document: JsonDocument) -> _Survey:
        trace = read_host(document)
        return self.setdefault(document, _Survey(trace.own_rank(), trace.records.is_linked))


def _without_linked(hosts: Sequence[TraceIdentity], surveys: _Surveys, losses: Losses) -> list[TraceIdentity]:
    """Host traces, without those that a linker made of others that are there too."""
    of_pid = Counter(one.pid for one in hosts if one.pid)
    linked = {one.name for one in hosts if of_pid[one.pid] > 1 and surveys[one.document].is_linked}
    plain = {one.pid for one in hosts if one.name not in linked}
    left_out = [one for one in hosts if one.name in linked and one.pid in plain]
    for one in left_out:
        losses.count(Fate.DROPPED, "files that a linker made of files that are there too", one.name)
    return [one for one in hosts if one not in left_out]


def _by_pid(found: Iterable[Process]) -> Mapping[int, Process]:
    """Processes whose id is theirs alone: on several hosts an id can occur twice."""
    seen: dict[int, list[Process]] = {}
    for process in found:
        if process.kineto is not None and process.kineto.pid:
            seen.setdefault(process.kineto.pid, []).append(process)
    return {pid: those[0] for pid, those in seen.items() if len(those) == 1}


def _rank(trace: TraceIdentity, said: int | None, numbers: Mapping[str, int], losses: Losses) -> int:
    if said is not None and 0 <= said < LARGEST_WORLD:
        return said
    if said is not None:
        raise TraceError(f"says that it is rank {said}; ranks are 0 to {LARGEST_WORLD - 1}", path=trace.name)
    if trace.name in numbers:
        losses.count(Fate.GUESSED, "the rank is that in the name of the file", trace.name)
        return numbers[trace.name]
    raise TraceError("does not say which rank it is: put the rank into its name, as trace.3.json", path=trace.name)


def _numbers_in_names(traces: Sequence[TraceIdentity]) -> dict[str, int]:
    """Name → the number in it that differs between the files, if just one does so and the numbers are ranks."""
    names = [PurePath(one.name).name for one in traces]
    numbers = [[int(one) for one in _NUMBER.findall(name) if len(one) <= _MOST_DIGITS] for name in names]
    if len({len(one) for one in numbers}) != 1:
        return {}
    if len(names) == 1:
        return {traces[0].name: 0}
    columns = list(zip(*numbers, strict=True))
    ranks = [column for column in columns if sorted(column) == list(range(len(names)))]
    if len(ranks) != 1:
        return {}
    return {trace.name: rank for trace, rank in zip(traces, ranks[0], strict=True)}


def _twice(trace: TraceIdentity, rank: int, others: Sequence[str]) -> TraceError:
    names = ", ".join([*others, trace.name])
    return TraceError(f"has several {trace.form.value} traces: {names}; keep one of each kind", rank=rank)
