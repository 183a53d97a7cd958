"""Limits of the hosts that a run reached: buffers that the kernel cut, datagrams that it dropped, shared ports."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from emulator.results.run_folder.manifest import HostFacts
from emulator.units import format_size

_SYSCTLS = {"receive": "net.core.rmem_max", "send": "net.core.wmem_max"}
_STRANGE = {
    "dropped.stranger": "packets came from senders that are not of the run",
    "dropped.length": "packets came that are too short for RoCEv2",
}
"""Drops → what they mean."""
_Facts = Mapping[str, int]


def host_limit_warnings(hosts: Iterable[HostFacts]) -> Mapping[str, int]:
    """Warnings with their remedy → number of occurrences, from the facts that transports of agents report.

    docs/results.md lists the facts.
    """
    facts = [
        {name: one.value for name, one in host.transport.items() if isinstance(one.value, int)}
        for host in hosts
        if host.transport
    ]
    return dict([*_cut_buffers(facts), *_drops(facts), *_strangers(facts), *_shared_ports(facts)])


def _cut_buffers(facts: Sequence[_Facts]) -> Iterator[tuple[str, int]]:
    """One warning per kind of buffer, for the smallest one."""
    for direction, sysctl in _SYSCTLS.items():
        for granted, requested in sorted(_buffer(one, direction) for one in facts)[:1]:
            if granted < requested:
                size = f"{format_size(granted)} of {format_size(requested)}"
                yield f"the kernel granted {size} for a {direction} buffer: sysctl -w {sysctl}={requested}", 1


def _drops(facts: Sequence[_Facts]) -> Iterator[tuple[str, int]]:
    received = sum(one.get("dropped.queue", 0) for one in facts)
    if received:
        remedy = _raise_buffer(facts, "receive") or "choose a smaller --window-bytes"
        yield f"the kernel dropped datagrams because a receive buffer was full: {remedy}", received
    sent = sum(one.get("dropped.send", 0) for one in facts)
    if sent:
        remedy = _raise_buffer(facts, "send") or "choose a --rate-cap, or check the packet filters of the host"
        yield f"the kernel refused to send a datagram: {remedy}", sent


def _strangers(facts: Sequence[_Facts]) -> Iterator[tuple[str, int]]:
    """What came to ranks and was of nobody in the run: it cost time, and somebody sent it."""
    for fact, what in _STRANGE.items():
        if found := sum(one.get(fact, 0) for one in facts):
            yield f"{what}: find out who else sends to the addresses of the ranks", found


def _shared_ports(facts: Sequence[_Facts]) -> Iterator[tuple[str, int]]:
    shared = sum(one.get("ports_shared", 0) for one in facts)
    if shared:
        remedy = "raise `ulimit -n`, or use more --agents"
        yield f"a queue pair had to share a source port because open files ran out: {remedy}", shared


def _raise_buffer(facts: Sequence[_Facts], direction: str) -> str | None:
    """The command that allows larger buffers; None if every buffer has the requested size already."""
    buffers = [_buffer(one, direction) for one in facts]
    if all(granted >= requested for granted, requested in buffers):
        return None
    return f"sysctl -w {_SYSCTLS[direction]}={max(requested for _, requested in buffers)}"


def _buffer(facts: _Facts, direction: str) -> tuple[int, int]:
    """(granted, requested), bytes."""
    return facts.get(f"{direction}_buffer_granted", 0), facts.get(f"{direction}_buffer_asked", 0)
