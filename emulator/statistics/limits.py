"""Limits of the hosts that a run met: what the kernel cut or dropped, as warnings that say what to do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from emulator.run_folder.manifest import HostFacts
from emulator.units import format_size

_SYSCTLS = {"receive": "net.core.rmem_max", "send": "net.core.wmem_max"}


def limits_met(hosts: Iterable[HostFacts]) -> Mapping[str, int]:
    """Warning → how many times, from what the agents' transports said; see docs/results.md for the names."""
    told = [{name: one.value for name, one in host.transport.items()} for host in hosts if host.transport]
    return dict([*_cut_buffers(told), *_drops(told)])


def _cut_buffers(told: Sequence[Mapping[str, object]]) -> Iterator[tuple[str, int]]:
    """One warning for each kind of buffer, about the smallest."""
    for way, sysctl in _SYSCTLS.items():
        sizes = [(_number(facts, f"{way}_buffer_granted"), _number(facts, f"{way}_buffer_asked")) for facts in told]
        for granted, asked in sorted(sizes)[:1]:
            if granted < asked:
                size = f"{format_size(granted)} of {format_size(asked)}"
                yield f"the kernel granted {size} for a {way} buffer: sysctl -w {sysctl}={asked}", 1


def _drops(told: Sequence[Mapping[str, object]]) -> Iterator[tuple[str, int]]:
    received = sum(_number(facts, "dropped.queue") for facts in told)
    if received:
        what = "one or more datagrams at once before a full receive buffer"
        yield f"the kernel dropped {what}: {_remedy(told, 'receive')}", received
    sent = sum(_number(facts, "dropped.send") for facts in told)
    if sent:
        yield f"the kernel did not take a datagram that was to be sent: {_remedy(told, 'send')}", sent


def _remedy(told: Sequence[Mapping[str, object]], way: str) -> str:
    """The sysctl where the buffer was cut; a larger buffer is not asked for, so else a smaller window."""
    asked = max(_number(facts, f"{way}_buffer_asked") for facts in told)
    if any(_number(facts, f"{way}_buffer_granted") < _number(facts, f"{way}_buffer_asked") for facts in told):
        return f"sysctl -w {_SYSCTLS[way]}={asked}"
    return "choose a smaller --window-bytes" if way == "receive" else "choose a --rate-cap, or look at its filters"


def _number(facts: Mapping[str, object], name: str) -> int:
    value = facts.get(name, 0)
    return value if isinstance(value, int) else 0
