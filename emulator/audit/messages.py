"""Messages of a flow, put together in the order of their PSNs, and the rules about their packets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from emulator.audit.rules import Rule, Violation
from emulator.audit.sighting import Sighting
from emulator.roce.constants import PATH_MTUS
from emulator.roce.opcodes import Operation, Place


@dataclass(slots=True)
class Sent:
    """A packet where its PSN stands; `psns` is how many PSNs it takes (a READ request: as many as its response)."""

    sighting: Sighting
    psns: int = 1


@dataclass(slots=True)
class Messages:
    """What was found; `sizes` counts whole messages by their length in bytes."""

    sizes: Counter[int] = field(default_factory=Counter)
    partial: int = 0
    violations: list[Violation] = field(default_factory=list)


def path_mtu(sightings: Iterable[Sighting]) -> int | None:
    """The path MTU that a flow's FIRST and MIDDLE packets show: the most frequent length that is one; None: none is."""
    lengths = Counter(
        one.payload_bytes
        for one in sightings
        if one.meaning.place in (Place.FIRST, Place.MIDDLE) and one.payload_bytes in PATH_MTUS
    )
    return max(lengths, key=lambda length: (lengths[length], length)) if lengths else None


def assemble(sent: Mapping[int, Sent], *, mtu: int | None, flow: str) -> Messages:
    """Put a flow's messages together.

    Args:
        sent: packets by unwrapped PSN, each as it was first seen.
        mtu: the path MTU, where it is known.
        flow: for people.
    """
    assembler = _Assembler(mtu, flow)
    for psn in sorted(sent):
        assembler.take(psn, sent[psn])
    return assembler.messages


class _Assembler:
    def __init__(self, mtu: int | None, flow: str) -> None:
        self._mtu, self._flow = mtu, flow
        self.messages = Messages()
        self._next_psn: int | None = None
        self._last: Sighting | None = None
        self._bytes: int | None = None  # of the message so far; None: its beginning was not seen
        self._reth_bytes: int | None = None

    def take(self, psn: int, sent: Sent) -> None:
        sighting = sent.sighting
        previous = self._last if psn == self._next_psn else None
        self._check_length(sighting)
        if previous is not None:
            self._check_sequence(previous, sighting)
        self._add(previous, sighting)
        self._next_psn, self._last = psn + sent.psns, sighting

    def _breach(self, sighting: Sighting, rule: Rule, problem: str) -> None:
        self.messages.violations.append(Violation(sighting.frame, rule, self._flow, problem))

    def _check_length(self, sighting: Sighting) -> None:
        place, length = sighting.meaning.place, sighting.payload_bytes
        if not sighting.meaning.carries_payload:
            return
        most = self._mtu or PATH_MTUS[-1]
        if place in (Place.FIRST, Place.MIDDLE) and length != self._mtu:
            expected = f"the path MTU is {self._mtu}" if self._mtu else "which is not a path MTU"
            self._breach(sighting, Rule.PATH_MTU, f"{place.name} has {length} bytes, {expected}")
        elif length > most:
            self._breach(sighting, Rule.PATH_MTU, f"{place.name} has {length} bytes, more than {most}")
        elif place is Place.LAST and length == 0:
            self._breach(sighting, Rule.PATH_MTU, "LAST has no payload")

    def _check_sequence(self, previous: Sighting, sighting: Sighting) -> None:
        before, now = previous.meaning, sighting.meaning
        if before.place.ends and not now.place.starts:
            self._breach(sighting, Rule.OPCODE_SEQUENCE, f"{_name(sighting)} after {_name(previous)}: no FIRST")
        elif not before.place.ends and now.place.starts:
            self._breach(sighting, Rule.OPCODE_SEQUENCE, f"{_name(sighting)} after {_name(previous)}: no LAST")
        elif not now.place.starts and before.operation is not now.operation:
            self._breach(sighting, Rule.OPCODE_SEQUENCE, f"{_name(sighting)} after {_name(previous)}")

    def _add(self, previous: Sighting | None, sighting: Sighting) -> None:
        place = sighting.meaning.place
        if place.starts:
            self._bytes, self._reth_bytes = sighting.payload_bytes, sighting.reth_bytes
        elif previous is None or previous.meaning.place.ends:
            self._bytes = self._reth_bytes = None
        elif self._bytes is not None:
            self._bytes += sighting.payload_bytes
        if place.ends:
            self._close(sighting)

    def _close(self, sighting: Sighting) -> None:
        if sighting.meaning.operation is Operation.READ_REQUEST:
            self.messages.sizes[sighting.reth_bytes or 0] += 1
        elif self._bytes is None:
            self.messages.partial += 1
        else:
            self.messages.sizes[self._bytes] += 1
            if self._reth_bytes is not None and self._reth_bytes != self._bytes:
                problem = f"the RETH announced {self._reth_bytes} bytes, the packets carried {self._bytes}"
                self._breach(sighting, Rule.MESSAGE_LENGTH, problem)


def _name(sighting: Sighting) -> str:
    meaning = sighting.meaning
    return f"{meaning.operation.name.replace('_', ' ')} {meaning.place.name}"
