"""Counters of profiles: frames that rules dropped, marked or duplicated at a switch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from emulator.device.counters.counters import CounterReading
from emulator.device.profile.changes import Change
from emulator.device.profile.profile import Drop, Duplicate, Mark, Police

DROPS, MARKS, DUPLICATES = "profile_drops", "ecn_marked", "profile_duplicates"
_COUNTER = {Drop: DROPS, Police: DROPS, Mark: MARKS, Duplicate: DUPLICATES}


@dataclass(frozen=True, slots=True)
class ProfileCounter:
    """The counter of a rule at a switch.

    Attributes:
        counter: profile_drops, ecn_marked or profile_duplicates.
        family, name: of the nftables object.
        interface: the port of its frames, where they leave, or else where they arrive; "" if there are several.
    """

    node: str
    rule: str
    counter: str
    family: str
    name: str
    interface: str = ""


def counters_of(changes: Sequence[Change]) -> list[ProfileCounter]:
    """The counters of all rules that count frames."""
    return [
        ProfileCounter(
            change.node.name,
            change.rule.name,
            _COUNTER[type(change.rule.action)],
            *change.counter,
            interface=_only_port(change),
        )
        for change in changes
        if change.counter is not None
    ]


def _only_port(change: Change) -> str:
    arriving = [end.port for end in change.rule.match.arriving if end.node == change.node.name]
    for names in ([port.name for port in change.ports], arriving):
        if len(names) == 1:
            return names[0]
    return ""


def sum_up(
    device: str, counters: Sequence[ProfileCounter], packets: Mapping[tuple[str, str], int]
) -> Iterator[CounterReading]:
    """Frames per rule (`profile_drops[lost-middles]`), and their sums per kind and port (`profile_drops`).

    Args:
        device: name of the switch.
        counters: of its rules.
        packets: (family, name) → frames. The object of a rule that has not started is missing: its value is 0.
    """
    sums: Counter[tuple[str, str]] = Counter()
    for one in counters:
        value = packets.get((one.family, one.name), 0)
        sums[one.interface, one.counter] += value
        yield CounterReading(device, one.interface, f"{one.counter}[{one.rule}]", value)
    yield from (CounterReading(device, interface, counter, value) for (interface, counter), value in sums.items())
