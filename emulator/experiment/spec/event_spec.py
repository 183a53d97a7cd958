"""Events of a run spec: what happens to the device under test during the run, and when."""

from __future__ import annotations

import re
from typing import ClassVar

import msgspec

from emulator.schema import Section, require_one_of
from emulator.units import digits, parse_duration

_ITERATION = re.compile(r"iteration\s+(\d+)", re.ASCII)


class Event(Section, frozen=True, kw_only=True, omit_defaults=True):
    """A change of the lab's switches during the run: a link down, a port that sends slower, or a profile in force.

    Attributes:
        at: since the first iteration began, warm-up included: `2s`; or when a measured one begins: `iteration 3`.
        port: `switch:port`.
        down: the link is down for this time: `300ms`; true: to the end of the run.
        shape: rate at which the port sends: `100Mbit`, or a share of its link's rate: `10 %`.
        profile: name or file; its rules are in force, their own times counted from `at`.
        lasts: key `for`: of shape and profile: how long; None: to the end of the run.
    """

    GROUP: ClassVar[str] = "events"
    at: str
    port: str | None = None
    down: str | bool | None = None
    shape: str | None = None
    profile: str | None = None
    lasts: str | None = msgspec.field(name="for", default=None)

    def __post_init__(self) -> None:
        require_one_of(self, "down", "shape", "profile")
        if self.down is False:
            raise ValueError("down: give how long, such as 300ms, or true for the rest of the run")
        if (self.port is None) is not (self.profile is not None):
            raise ValueError("a profile has ports of its own: leave out port" if self.port else "needs a port")
        if self.port is not None and not all(self.port.rpartition(":")[::2]):
            raise ValueError(f"port: {self.port[:40]!r} is not a port: write switch:port")
        if self.down is not None and self.lasts is not None:
            raise ValueError("for: write how long the link is down as down: 300ms")
        if self.shape is not None:
            from emulator.device.profile.load import parse_port_rate  # few run specs have events

            _ = parse_port_rate(self.shape)
        _ = self.after_ns
        if self.lasts_ns is not None and self.lasts_ns < 1:
            raise ValueError(f"{'down' if self.down is not None else 'for'}: give a time above 0")

    @property
    def iteration(self) -> int | None:
        """Whose beginning `at` counts from; None: the first one that is played."""
        found = _ITERATION.fullmatch(self.at.strip())
        return None if found is None else digits(found[1])

    @property
    def after_ns(self) -> int:
        """When it begins, after that."""
        if self.iteration is not None:
            return 0
        try:
            return parse_duration(self.at)
        except ValueError:
            raise ValueError(f"at: {self.at[:40]!r}: write a time, such as 2s, or iteration 3") from None

    @property
    def lasts_ns(self) -> int | None:
        """How long it lasts; None: to the end of the run."""
        given = self.lasts if self.down is None else self.down
        return parse_duration(given) if isinstance(given, str) else None
