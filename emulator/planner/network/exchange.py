"""Full exchanges added up by host and switch: what n(n - 1) flows load, without listing them.

From s to t go sent[s] + received[t] bytes, so all that goes from the members S of one place to the members T of another
is |T| · sent(S) + |S| · received(T). What stays on a host, and a member with itself, is then taken off.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from emulator.planner.network.arrays import concatenated_ranges
from emulator.planner.network.routing import Router
from emulator.planner.traffic.operation import Operation
from emulator.planner.traffic.phase import FullExchange
from emulator.trace.meaning.model import BoolArray, IntArray


class MemberSums(NamedTuple):
    """Of every member of some groups: int64, shape (groups · n,).

    Attributes:
        groups: counted from the first of these groups.
        far: members on other hosts.
        out, into: bytes to and from those.
        near_out, near_into: bytes to and from the others on its host.
    """

    groups: IntArray
    ranks: IntArray
    far: IntArray
    out: IntArray
    into: IntArray
    near_out: IntArray
    near_into: IntArray


class Bundles(NamedTuple):
    """Flows of one group between hosts, from one switch to another, together: int64, shape (bundles,).

    Attributes:
        senders, receivers: one of the ranks at each switch.
        flows: how many, at least one.
        sizes: bytes of all of them.
    """

    groups: IntArray
    senders: IntArray
    receivers: IntArray
    flows: IntArray
    sizes: IntArray


class _Classes(NamedTuple):
    """Members with equal keys: the class of each; per class a member, how many, and the sums of their shares."""

    of_member: IntArray
    a_member: IntArray
    size: IntArray
    sent: IntArray
    received: IntArray


class ExchangeSums:
    """What the members of some groups exchange.

    Attributes:
        members: what each of them does.
    """

    def __init__(self, operation: Operation, exchange: FullExchange, groups: range, router: Router) -> None:
        self._router = router
        chosen = operation.ranks[groups.start : groups.stop]
        ranks, self._group = chosen.ravel(), np.repeat(np.arange(len(chosen), dtype=np.int64), operation.members)
        self._sent, self._received = (np.tile(part, len(chosen)) for part in (exchange.sent, exchange.received))
        self._hosts = hosts = self._classes(self._group, router.rank_host[ranks])
        count, of = hosts.size[hosts.of_member], hosts.of_member
        far, near = operation.members - count, count - 1
        sent, received = self._sent, self._received
        self.members = MemberSums(
            groups=self._group,
            ranks=ranks,
            far=far,
            out=far * sent + int(exchange.received.sum()) - hosts.received[of],
            into=far * received + int(exchange.sent.sum()) - hosts.sent[of],
            near_out=near * sent + hosts.received[of] - received,
            near_into=near * received + hosts.sent[of] - sent,
        )

    def between_switches(self) -> Bundles:
        """The flows between hosts, by group and by the switches at both ends."""
        switch, ranks = self._router.switches_of(self.members.ranks), self.members.ranks
        every = self._classes(self._group, switch)
        one, other, start, before = _pairs(self._group[every.a_member])
        flows = every.size[one] * every.size[other]
        sizes = every.size[other] * every.sent[one] + every.size[one] * every.received[other]
        parts = self._classes(self._hosts.of_member, switch)
        here, there, _, _ = _pairs(self._hosts.of_member[parts.a_member])
        at = every.of_member[parts.a_member]
        place = start[at[here]] + at[there] - before[at[here]]
        np.subtract.at(flows, place, parts.size[here] * parts.size[there])
        np.subtract.at(sizes, place, parts.size[there] * parts.sent[here] + parts.size[here] * parts.received[there])
        kept = flows > 0
        senders, receivers = ranks[every.a_member[one[kept]]], ranks[every.a_member[other[kept]]]
        return Bundles(self._group[every.a_member[one[kept]]], senders, receivers, flows[kept], sizes[kept])

    def _classes(self, major: IntArray, minor: IntArray) -> _Classes:
        """Members with equal numbers, ascending."""
        key = major * (int(minor.max(initial=0)) + 1) + minor
        _, first, inverse, count = np.unique(key, return_index=True, return_inverse=True, return_counts=True)
        sent, received = (np.zeros(len(first), dtype=np.int64) for _ in range(2))
        np.add.at(sent, inverse, self._sent)
        np.add.at(received, inverse, self._received)
        return _Classes(inverse.astype(np.int64), first.astype(np.int64), count.astype(np.int64), sent, received)


def _pairs(owner: IntArray) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """All ordered pairs of classes with one owner, class by class; `owner` ascends.

    Returns:
        (one, other) of each pair; per class: its first pair, and the first class of its owner.
    """
    starts = np.searchsorted(owner, owner)
    count = np.searchsorted(owner, owner, side="right") - starts
    one = np.repeat(np.arange(len(owner), dtype=np.int64), count)
    return one, concatenated_ranges(starts, count), np.cumsum(count) - count, starts


def exchange_incast(host: IntArray, port: IntArray, in_domain: BoolArray, *, is_by_distance: bool) -> tuple[int, int]:
    """Most senders in a step to one rank, without those of its own domain, and through one port, from other hosts.

    Args:
        host, port, in_domain: of each member.
        is_by_distance: each member receives from one other in a step; else from all.
    """
    on_host, at_port = np.bincount(host)[host], np.bincount(port)[port]
    far = len(host) - on_host
    if not is_by_distance:
        return int((len(host) - np.where(in_domain, on_host, 1)).max()), int((at_port * far).max())
    # No port has more senders than members at it, or members on other hosts: the distance that attains it is the last.
    most, ports, ranks, order = int(np.minimum(at_port, far).max()), 0, 0, _from_the_middle(len(host))
    if not in_domain.all() or far.any():
        ranks = 1
    for distance in order:
        if ports == most:
            break
        remote = np.roll(host, distance) != host
        ports = max(ports, int(np.bincount(port[remote], minlength=1).max()))
    return ranks, ports


def _from_the_middle(members: int) -> list[int]:
    """All distances, the farthest first, both ways round."""
    return sorted(range(1, members), key=lambda distance: -min(distance, members - distance))
