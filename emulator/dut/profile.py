"""A firmware profile: what a device under test does to frames beside forwarding them, as its file says it.

Nothing here knows a topology or a kernel: ports are names, rates may be shares of a port's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TypeAlias

from emulator.dut.opcodes import OpcodeClass
from emulator.errors import TopologyError
from emulator.topology.document import Document
from emulator.topology.network import End


@dataclass(frozen=True, slots=True)
class Share:
    """Frames picked at random: each with this probability, 0 < fraction ≤ 1."""

    fraction: Fraction

    def __str__(self) -> str:
        return f"{float(100 * self.fraction):g} %"


@dataclass(frozen=True, slots=True)
class Every:
    """Every n-th frame, the first of them first."""

    n: int

    def __str__(self) -> str:
        return f"1 of {self.n}"


@dataclass(frozen=True, slots=True)
class Rate:
    """A rate in bit/s, or a share of the port's own."""

    bps: int | None = None
    share: Fraction | None = None

    def of(self, port_bps: int | None) -> int | None:
        """bit/s at a port of that rate; None if it is a share and the port has no rate."""
        if self.share is None:
            return self.bps
        return None if port_bps is None else round(self.share * port_bps)

    def __str__(self) -> str:
        return f"{self.bps} bit/s" if self.share is None else f"{float(100 * self.share):g} % of the port's rate"


@dataclass(frozen=True, slots=True)
class Above:
    """Frames of a port beyond a rate, after a burst one in bytes."""

    rate: Rate
    burst_bytes: int

    def __str__(self) -> str:
        return f"above {self.rate}"


Selection: TypeAlias = Share | Every


@dataclass(frozen=True, slots=True)
class Drop:
    """Frames are lost."""

    selection: Selection

    def __str__(self) -> str:
        return f"drop {self.selection}"


@dataclass(frozen=True, slots=True)
class Mark:
    """Frames that say they are ECN-capable get Congestion Experienced."""

    selection: Selection | Above

    def __str__(self) -> str:
        return f"mark {self.selection}"


@dataclass(frozen=True, slots=True)
class Duplicate:
    """Frames leave twice."""

    selection: Selection

    def __str__(self) -> str:
        return f"duplicate {self.selection}"


@dataclass(frozen=True, slots=True)
class Police:
    """Frames beyond a rate are lost, with no queue before that."""

    above: Above

    def __str__(self) -> str:
        return f"police {self.above.rate}"


@dataclass(frozen=True, slots=True)
class Shape:
    """A port sends at this rate; `queue_bytes` None keeps its queue."""

    rate: Rate
    queue_bytes: int | None = None

    def __str__(self) -> str:
        return f"shape to {self.rate}"


@dataclass(frozen=True, slots=True)
class Delay:
    """Frames leave later by `delay_ns`, more or less by up to `jitter_ns`; a `reorder` share of them leaves at once."""

    delay_ns: int
    jitter_ns: int = 0
    reorder: Fraction | None = None

    def __str__(self) -> str:
        jitter = f" ± {self.jitter_ns} ns" if self.jitter_ns else ""
        reorder = "" if self.reorder is None else f", reorder {Share(self.reorder)}"
        return f"delay {self.delay_ns} ns{jitter}{reorder}"


@dataclass(frozen=True, slots=True)
class PortDown:
    """A port has no link."""

    def __str__(self) -> str:
        return "port down"


Action: TypeAlias = Drop | Mark | Duplicate | Police | Shape | Delay | PortDown
FrameAction: TypeAlias = Drop | Mark | Duplicate | Police
PortAction: TypeAlias = Shape | Delay | PortDown


@dataclass(frozen=True, slots=True)
class Match:
    """Which frames a rule looks at: those that fulfil all of it.

    Attributes:
        opcodes: classes of BTH opcodes; empty for any.
        source, destination: an address or prefix.
        source_port: of UDP: what tells the flows of a pair of addresses apart.
        queue_pair: destination queue pair number.
        is_any_traffic: every frame, not only RoCEv2's.
        arriving: ports it came in at; empty for any.
    """

    opcodes: Sequence[OpcodeClass] = ()
    source: str | None = None
    destination: str | None = None
    source_port: int | None = None
    queue_pair: int | None = None
    is_any_traffic: bool = False
    arriving: Sequence[End] = ()


@dataclass(frozen=True, slots=True)
class Rule:
    """One behaviour.

    Attributes:
        name: names its counters.
        ports: where frames leave, or whose link it is; empty for every port of the device.
        start_s, end_s: seconds into the run, from the start of its first iteration; None: from before its start, to
            after its end.
    """

    name: str
    action: Action
    match: Match = Match()
    ports: Sequence[End] = ()
    start_s: float | None = None
    end_s: float | None = None

    @property
    def is_timed(self) -> bool:
        """Whether it begins after the run does."""
        return self.start_s is not None


@dataclass(frozen=True, slots=True)
class Profile:
    """A profile as it was read.

    Attributes:
        digest: SHA-256 of its file, hex.
        document: the file, for errors that name the line.
    """

    name: str
    path: Path
    digest: str
    rules: Sequence[Rule]
    document: Document
    description: str = ""

    def error(self, problem: str, rule: Rule, *key: str | int) -> TopologyError:
        """An error that names file, line and key of a rule."""
        return self.document.error(problem, ("rules", self.rules.index(rule), *key))
