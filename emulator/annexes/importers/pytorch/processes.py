"""Which traces belong together: those of one process, and the rank that it was."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import NamedTuple

from emulator.annexes.importers.documents import JsonDocument
from emulator.annexes.importers.model import Fate, Losses
from emulator.annexes.importers.pytorch.documents import Form, TraceIdentity, read_host
from emulator.annexes.importers.pytorch.names import LARGEST_WORLD
from emulator.errors import TraceError

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
