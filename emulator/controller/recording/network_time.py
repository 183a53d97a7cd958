"""How much of a collective's time was the network's: from the kernel's time stamps of the messages that ended it.

From the transfer that arrived last, the chain goes back to what each transfer waited for: the last arrival that its
step needed, or, if the port was sending an earlier transfer of the collective after that, this one. The network had
the collective while a transfer of the chain that crosses a port was on its way: from its first packet at the driver to
its last packet at the receiving kernel. What is before the last post counts for nobody, as in `cct_ns`. The rest of
the time is the tester's, waits for other collectives at the same port among it: no device could make them shorter.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from emulator.control.observations import BEHIND, MemberChain
from emulator.results.run_folder.schema import RunTable
from emulator.results.run_folder.writer import RunWriter
from emulator.results.statistics.samples.measured_rows import to_ints
from emulator.trace.meaning.model import IntArray

MOST_HELD = 1 << 18
"""Transfers of instances that lack members, held at once; then the oldest instance is given up."""
_EARLIEST_NS = -20_000
"""A transfer that arrives so long before it left was stamped by clocks that do not agree."""
_Line: TypeAlias = tuple[int, int, int]
"""Source, destination, lane."""


class Split(NamedTuple):
    """What is known of one instance.

    Attributes:
        network_ns: time in the network.
        crossings: transfers of the chain that crossed a port.
    """

    network_ns: int
    crossings: int


class _Transfer(NamedTuple):
    """A transfer of the chain: when it left and arrived, and what was received that it waited for; None: the post."""

    src: int
    dst: int
    left_ns: int
    arrived_ns: int
    cause: tuple[_Line, int] | None


def split(
    members: Sequence[MemberChain], hosts: Sequence[int], *, is_pair: bool = False, busy_ns: float = math.inf
) -> Split | None:
    """The split of one instance; None if a time stamp is missing or impossible, or nothing crossed a port.

    Args:
        members: all of them.
        hosts: host of each rank.
        is_pair: a send and its receive, whose time begins with the post of the send.
        busy_ns: for how long a transfer can keep a port busy at most.
    """
    transfers = _matched(members)
    if transfers is None:
        return None
    sending = [one for one in members if len(one.receiver)]
    begin_ns = max(one.post_ns for one in (sending if is_pair else members))
    crossing = [one for one in transfers.values() if hosts[one.src] != hosts[one.dst]]
    if any(not one.left_ns or not one.arrived_ns for one in crossing):
        return None
    if any(one.arrived_ns - one.left_ns < _EARLIEST_NS for one in crossing):
        return None
    if not crossing:
        return None
    busy: dict[int, list[_Transfer]] = {}  # host → what left it, in order
    for one in sorted(crossing, key=lambda one: one.left_ns):
        busy.setdefault(hosts[one.src], []).append(one)
    chain: list[_Transfer] = []
    last: _Transfer | None = max(transfers.values(), key=lambda one: one.arrived_ns)
    for _ in range(len(transfers)):
        if last is None:
            break
        cause = None if last.cause is None else transfers.get((last.cause[0], last.cause[1]))
        before = cause
        if hosts[last.src] != hosts[last.dst]:
            chain.append(last)
            if last.left_ns <= begin_ns:
                break
            since_ns = begin_ns if cause is None else cause.arrived_ns
            before = _ahead(busy[hosts[last.src]], last, since_ns, busy_ns) or cause
        last = before
    return Split(_covered(chain, begin_ns), len(chain))


def _matched(members: Sequence[MemberChain]) -> dict[tuple[_Line, int], _Transfer] | None:
    """The transfers by line and number on it; None if one has only one end."""
    arrivals: dict[tuple[_Line, int], int] = {}
    rows: dict[int, list[tuple[_Line, int]]] = {}  # rank → what it received
    seen: dict[_Line, int] = {}
    for one in members:
        received = rows[one.rank] = []
        for sender, lane, at_ns in zip(one.sender, one.receive_lane, one.received_ns, strict=True):
            line = (sender, one.rank, lane)
            number = seen[line] = seen.get(line, -1) + 1
            arrivals[line, number] = at_ns
            received.append((line, number))
    found: dict[tuple[_Line, int], _Transfer] = {}
    seen = {}
    for one in members:
        received = rows[one.rank]
        for receiver, lane, cause, at_ns in zip(one.receiver, one.send_lane, one.cause, one.sent_ns, strict=True):
            line = (one.rank, receiver, lane)
            number = seen[line] = seen.get(line, -1) + 1
            if (arrived_ns := arrivals.get((line, number))) is None:
                return None
            found[line, number] = _Transfer(
                one.rank, receiver, at_ns, arrived_ns, received[cause - 1] if cause else None
            )
    return found if len(found) == len(arrivals) and found else None


def _ahead(sent: Sequence[_Transfer], of: _Transfer, since_ns: int, busy_ns: float) -> _Transfer | None:
    """What a transfer waited behind at the port of its host, though it could have gone since a time; None: nothing.

    That is the first one that was still leaving. If none was, it is the last one, if that was on its way mostly after
    the time, and the port has been idle since for less than it had taken: agents hand over the next transfer of a flow
    a little after the one before has arrived.
    """
    found = None
    for one in sent:
        if one.left_ns >= of.left_ns:
            break
        if of.left_ns - one.left_ns > busy_ns or one.arrived_ns <= since_ns:
            continue
        if one.arrived_ns >= of.left_ns:
            return one
        if 2 * since_ns <= one.left_ns + one.arrived_ns and (found is None or one.arrived_ns > found.arrived_ns):
            found = one
    if found is None or of.left_ns - found.arrived_ns > found.arrived_ns - found.left_ns:
        return None
    return found


def _covered(chain: Sequence[_Transfer], begin_ns: int) -> int:
    """For how long at least one of them was on its way, from a time on."""
    covered, until_ns = 0, begin_ns
    for one in sorted(chain, key=lambda one: one.left_ns):
        covered += max(0, one.arrived_ns - max(one.left_ns, until_ns))
        until_ns = max(until_ns, one.arrived_ns)
    return covered


class CommunicationCatalogue(Protocol):
    """What is known of a communication of a rank."""

    def members(self, rank: int, node_id: int) -> int:
        """See NodeCatalogue."""
        ...

    def is_pair(self, rank: int, node_id: int) -> bool:
        """See NodeCatalogue."""
        ...

    def size_bytes(self, rank: int, node_id: int) -> int:
        """See NodeCatalogue."""
        ...


class NetworkTimes:
    """The splits of a run, as members report.

    Args:
        catalogue: of its communications.
        hosts: host of each rank.
        byte_ns: what a byte takes at the slowest port, headers included; infinite: not known.
    """

    def __init__(self, catalogue: CommunicationCatalogue, hosts: Sequence[int], *, byte_ns: float = math.inf) -> None:
        self._catalogue, self._hosts, self._byte_ns = catalogue, hosts, byte_ns
        self._open: dict[tuple[int, int], list[MemberChain]] = {}
        self._held = 0
        self._rows = [array("q") for _ in _ROW]

    def add(self, chain: MemberChain) -> None:
        """A member is done."""
        key = (chain.iteration, chain.instance)
        members = self._open.setdefault(key, [])
        members.append(chain)
        self._held += len(chain.receiver)
        if len(members) == self._catalogue.members(chain.rank, chain.node_id):
            self._close(key)
        while self._held > MOST_HELD:
            self._drop(next(iter(self._open)))

    def _drop(self, key: tuple[int, int]) -> list[MemberChain]:
        members = self._open.pop(key)
        self._held -= sum(len(one.receiver) for one in members)
        return members

    def _close(self, key: tuple[int, int]) -> None:
        members = self._drop(key)
        is_pair = self._catalogue.is_pair(members[0].rank, members[0].node_id)
        size = self._catalogue.size_bytes(members[0].rank, members[0].node_id)
        found = split(members, self._hosts, is_pair=is_pair, busy_ns=size * self._byte_ns if size else 0.0)
        if found is not None:
            stalled: dict[int, int] = {}  # ranks of a host share its port
            for one in members:
                host = self._hosts[one.rank]
                stalled[host] = max(stalled.get(host, 0), one.stalled_ns)
            usual = [one.port_ns for one in members]
            port_ns = 0 if BEHIND in usual else max(usual)
            for column, value in zip(self._rows, (*key, *found, sum(stalled.values()), port_ns), strict=True):
                column.append(value)

    def write(self, writer: RunWriter, *, instances: int) -> None:
        """Fill in the samples; none may be added afterwards.

        Raises:
            HostError: the table cannot be written.
        """
        iteration, instance, *values = (np.array(column, np.int64) for column in self._rows)
        if len(iteration):
            keys = iteration * instances + instance
            order = np.argsort(keys, kind="stable")
            columns = dict(zip(_ROW[2:], (one[order] for one in values), strict=True))
            writer.adjust(RunTable.SAMPLES, partial(_filled, keys=keys[order], columns=columns, instances=instances))


_ROW = ("iteration", "instance", "network_ns", "network_crossings", "stalled_ns", "port_ns")


def _filled(batch: pa.RecordBatch, *, keys: IntArray, columns: dict[str, IntArray], instances: int) -> pa.RecordBatch:
    wanted = to_ints(batch["iteration"]) * instances + to_ints(batch["instance"])
    place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    missing: Any = keys[place] != wanted
    for name, values in columns.items():
        column = pa.array(values[place], batch.schema.field(name).type, mask=missing)
        batch = batch.set_column(batch.schema.get_field_index(name), batch.schema.field(name), column)
    return batch
