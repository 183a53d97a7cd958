"""What a profile counted at a switch, under names that reports know."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from emulator.dut.changes import Change
from emulator.dut.counters import Reading
from emulator.dut.profile import Drop, Duplicate, Mark, Police

DROPS, MARKS, DUPLICATES = "profile_drops", "ecn_marked", "profile_duplicates"
_COUNTER = {Drop: DROPS, Police: DROPS, Mark: MARKS, Duplicate: DUPLICATES}


@dataclass(frozen=True, slots=True)
class ProfileCounter:
    """A rule's counter at a switch.

    Attributes:
        counter: profile_drops, ecn_marked or profile_duplicates.
        family, name: the nftables object.
    """

    node: str
    rule: str
    counter: str
    family: str
    name: str


def counters_of(changes: Sequence[Change]) -> list[ProfileCounter]:
    """Of all rules that count frames."""
    return [
        ProfileCounter(change.node.name, change.rule.name, _COUNTER[type(change.rule.action)], *change.counter)
        for change in changes
        if change.counter is not None
    ]


def sum_up(
    device: str, counters: Sequence[ProfileCounter], packets: Mapping[tuple[str, str], int]
) -> Iterator[Reading]:
    """Frames per kind (`profile_drops`) and per rule (`profile_drops[lost-middles]`).

    A rule that has not begun yet has counted nothing: its object is not there.
    """
    sums: Counter[str] = Counter()
    for one in counters:
        value = packets.get((one.family, one.name), 0)
        sums[one.counter] += value
        yield Reading(device, "", f"{one.counter}[{one.rule}]", value)
    yield from (Reading(device, "", counter, value) for counter, value in sums.items())
