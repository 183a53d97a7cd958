"""A firmware profile as values: what a device under test does to frames in addition to forwarding them.

A schedule is what it does during a run, and when: the rules of its profile, and those that events of the run spec make.

Profiles are independent of topology and kernel: ports are names, and rates can be shares of the rate of a port.

Switches match classes of RoCEv2 packets by bytes at offsets. Source: InfiniBand Architecture Specification, volume 1,
tables of BTH opcodes and of AETH syndromes; annex A17 for the CNP. The BTH begins after the UDP header (8 bytes); the
AETH of an acknowledgement after the BTH (12 bytes).
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import TypeAlias

from emulator.errors import EventError, InputError, TopologyError
from emulator.topology.document import Document
from emulator.topology.network import End
from emulator.visible import short

_UC = 0x20


@dataclass(frozen=True, slots=True)
class OpcodeClass:
    """A set of BTH opcodes.

    Attributes:
        syndrome: upper three bits of the syndrome in the AETH; None for any.
    """

    name: str
    opcodes: Sequence[int]
    syndrome: int | None = None


def _also_unreliable(*opcodes: int) -> tuple[int, ...]:
    """Opcodes of the reliable service, and the same operations of the unreliable connected service."""
    return (*opcodes, *(opcode | _UC for opcode in opcodes))


_FIRST = (*_also_unreliable(0x00, 0x06), 0x0D)
_MIDDLE = (*_also_unreliable(0x01, 0x07), 0x0E)
_LAST = (*_also_unreliable(0x02, 0x03, 0x08, 0x09), 0x0F, 0x16)
_ONLY = (*_also_unreliable(0x04, 0x05, 0x0A, 0x0B), 0x10, 0x17, 0x64, 0x65)
_ACK = (0x11,)

OPCODE_CLASSES: Mapping[str, OpcodeClass] = {
    one.name: one
    for one in (
        OpcodeClass("first", _FIRST),
        OpcodeClass("middle", _MIDDLE),
        OpcodeClass("last", _LAST),
        OpcodeClass("only", _ONLY),
        OpcodeClass("data", (*_FIRST, *_MIDDLE, *_LAST, *_ONLY)),
        OpcodeClass("read", (0x0C,)),
        OpcodeClass("read_response", (0x0D, 0x0E, 0x0F, 0x10)),
        OpcodeClass("atomic", (0x12, 0x13, 0x14)),
        OpcodeClass("ack", _ACK, syndrome=0b000),
        OpcodeClass("rnr_nak", _ACK, syndrome=0b001),
        OpcodeClass("nak", _ACK, syndrome=0b011),
        OpcodeClass("cnp", (0x81,)),
    )
}


@dataclass(frozen=True, slots=True)
class FrameShare:
    """Frames selected at random, each with this probability; 0 < fraction ≤ 1."""

    fraction: Fraction

    def __str__(self) -> str:
        return f"{float(100 * self.fraction):g} %"


@dataclass(frozen=True, slots=True)
class Every:
    """One of n frames, beginning with the first."""

    n: int

    def __str__(self) -> str:
        return f"1 of {self.n}"


@dataclass(frozen=True, slots=True)
class Rate:
    """A rate in bit/s, or a share of the rate of a port."""

    bps: int | None = None
    share: Fraction | None = None

    def of(self, port_bps: int | None) -> int | None:
        """The rate at a port, bit/s; None for a share of a port without a rate."""
        if self.share is None:
            return self.bps
        return None if port_bps is None else round(self.share * port_bps)

    def __str__(self) -> str:
        return f"{self.bps} bit/s" if self.share is None else f"{float(100 * self.share):g} % of the port's rate"


@dataclass(frozen=True, slots=True)
class Above:
    """Frames of a port that exceed a rate and a burst in bytes."""

    rate: Rate
    burst_bytes: int

    def __str__(self) -> str:
        return f"above {self.rate}"


@dataclass(frozen=True, slots=True)
class Once:
    """The first frame."""

    def __str__(self) -> str:
        return "once"


Selection: TypeAlias = FrameShare | Every | Once


@dataclass(frozen=True, slots=True)
class Drop:
    """Drop frames."""

    selection: Selection

    def __str__(self) -> str:
        return f"drop {self.selection}"


@dataclass(frozen=True, slots=True)
class Mark:
    """Mark ECN-capable frames Congestion Experienced."""

    selection: Selection | Above

    def __str__(self) -> str:
        return f"mark {self.selection}"


@dataclass(frozen=True, slots=True)
class Duplicate:
    """Send frames twice."""

    selection: Selection

    def __str__(self) -> str:
        return f"duplicate {self.selection}"


@dataclass(frozen=True, slots=True)
class Police:
    """Drop frames above a rate, without a queue."""

    above: Above

    def __str__(self) -> str:
        return f"police {self.above.rate}"


@dataclass(frozen=True, slots=True)
class Shape:
    """Limit the rate of a port; `queue_bytes` None keeps the depth of its queue."""

    rate: Rate
    queue_bytes: int | None = None

    def __str__(self) -> str:
        return f"shape to {self.rate}"


@dataclass(frozen=True, slots=True)
class Delay:
    """Delay frames by `delay_ns` ± up to `jitter_ns`; a share `reorder` of them is not delayed."""

    delay_ns: int
    jitter_ns: int = 0
    reorder: Fraction | None = None

    def __str__(self) -> str:
        jitter = f" ± {self.jitter_ns} ns" if self.jitter_ns else ""
        reorder = "" if self.reorder is None else f", reorder {FrameShare(self.reorder)}"
        return f"delay {self.delay_ns} ns{jitter}{reorder}"


@dataclass(frozen=True, slots=True)
class PortDown:
    """Take the link of a port down."""

    def __str__(self) -> str:
        return "port down"


@dataclass(frozen=True, slots=True)
class Command:
    """Run a program on this host, for at most so long. Only events of a run spec have it, never a profile."""

    words: Sequence[str]
    limit_s: float

    def __str__(self) -> str:
        return short(f"run {shlex.join(self.words)}", _MOST_SHOWN)


_MOST_SHOWN = 80
"""Characters of a command in tables and pictures."""
Action: TypeAlias = Drop | Mark | Duplicate | Police | Shape | Delay | PortDown | Command
FrameAction: TypeAlias = Drop | Mark | Duplicate | Police
PortAction: TypeAlias = Shape | Delay | PortDown


@dataclass(frozen=True, slots=True)
class Match:
    """The frames that a rule applies to: those that meet all conditions.

    Attributes:
        opcodes: classes of BTH opcodes; empty for any.
        source, destination: an address or prefix; None for any.
        source_port: UDP source port, which differs between the flows of a pair of addresses; None for any.
        queue_pair: destination queue pair number; None for any.
        psns: first and last packet sequence number; None for any.
        is_any_traffic: all frames, not only RoCEv2.
        arriving: ingress ports; empty for any.
    """

    opcodes: Sequence[OpcodeClass] = ()
    source: str | None = None
    destination: str | None = None
    source_port: int | None = None
    queue_pair: int | None = None
    psns: tuple[int, int] | None = None
    is_any_traffic: bool = False
    arriving: Sequence[End] = ()


@dataclass(frozen=True, slots=True)
class Moment:
    """A time in a run: so long after an iteration began; `iteration` None: the first one that is played."""

    after_s: float
    iteration: int | None = None

    def __str__(self) -> str:
        after, number = f"{self.after_s:g} s", self.iteration
        return after if number is None else f"iteration {number} + {after}" if self.after_s else f"iteration {number}"


@dataclass(frozen=True, slots=True)
class ProfileRule:
    """One rule of a profile.

    Attributes:
        name: in the names of its counters.
        ports: egress ports, or the ports whose link changes; empty for every port of the device.
        start, end: when it is in force; None: from before the first iteration, until after the last one.
    """

    name: str
    action: Action
    match: Match = Match()
    ports: Sequence[End] = ()
    start: Moment | None = None
    end: Moment | None = None

    @property
    def is_timed(self) -> bool:
        """Whether it starts during the run."""
        return self.start is not None

    @property
    def is_event(self) -> bool:
        """Whether it starts or ends during the run."""
        return (self.start, self.end) != (None, None)


@dataclass(frozen=True, slots=True)
class Profile:
    """A profile.

    Attributes:
        path: of its file.
        digest: SHA-256 of the file, in hex.
        document: the file, for errors with line numbers.
    """

    name: str
    path: Path
    digest: str
    rules: Sequence[ProfileRule]
    document: Document
    description: str = ""

    def error(self, problem: str, rule: ProfileRule, *key: str | int) -> TopologyError:
        """An error that names file, line and key of a rule."""
        return self.document.error(problem, ("rules", self.rules.index(rule), *key))


@dataclass(frozen=True, slots=True)
class PlannedEvent:
    """An event of a run spec: an action, at a port if it is one of a switch, or a profile in force.

    Attributes:
        end: None: to the end of the run.
    """

    start: Moment
    end: Moment | None
    port: End | None = None
    action: Action | None = None
    profile: Profile | None = None


class Schedule:
    """All rules of a run.

    Args:
        profile: in force for the whole run, except for those of its rules that have times; None: there is none.
        events: in the order of the run spec.
    """

    def __init__(self, profile: Profile | None, events: Sequence[PlannedEvent] = ()) -> None:
        self.profile = profile
        own = list(profile.rules) if profile is not None else []
        made = [(rule, number, source) for number, one in enumerate(events) for rule, source in _rules(one, number)]
        self._sources: dict[str, tuple[Profile | None, ProfileRule, int | None]] = {
            rule.name: (profile, rule, None) for rule in own
        }
        names = Counter([rule.name for rule in own])
        self.rules: list[ProfileRule] = own
        for rule, number, source in made:
            names[rule.name] += 1
            name = rule.name if names[rule.name] == 1 else f"{rule.name}, events[{number}]"
            self.rules.append(replace(rule, name=name))
            self._sources[name] = source, rule, number

    @property
    def name(self) -> str:
        """Of what is in force, for errors."""
        return "events" if self.profile is None else self.profile.name

    def error(self, problem: str, rule: ProfileRule, *key: str | int) -> InputError:
        """An error that names the place of a rule: file, line and key of its profile, or the event."""
        source, original, number = self._sources[rule.name]
        if source is None:
            assert number is not None
            return EventError(problem, number, *map(str, key[:1]))
        if number is None:
            return source.error(problem, original, *key)
        in_file = next(one for one in source.rules if one.name == original.name)
        return EventError(str(source.error(problem, in_file, *key)), number, "profile")


def _rules(event: PlannedEvent, number: int) -> Iterator[tuple[ProfileRule, Profile | None]]:
    """The rules that an event makes, each with the profile that it comes from."""
    if event.profile is None:
        assert event.action is not None
        ports = () if event.port is None else (event.port,)
        yield ProfileRule(f"events[{number}]", event.action, ports=ports, start=event.start, end=event.end), None
        return
    for rule in event.profile.rules:
        ends = [one for one in (_shifted(rule.end, event.start), event.end) if one is not None]
        end = min(ends, key=lambda one: one.after_s, default=None)
        start = _shifted(rule.start, event.start) or event.start
        if end is None or start.after_s < end.after_s:
            yield replace(rule, start=start, end=end), event.profile


def _shifted(moment: Moment | None, start: Moment) -> Moment | None:
    return None if moment is None else Moment(start.after_s + moment.after_s, start.iteration)
