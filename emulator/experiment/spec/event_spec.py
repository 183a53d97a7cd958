"""Events of a run spec: what happens to the device under test during the run, and when.

Of a lab, Charkha changes the switches itself; of a real device, a command on this host does, if the user allows that.
"""

from __future__ import annotations

import re
from typing import ClassVar

import msgspec

from emulator.schema import Section, require_one_of
from emulator.units import NS_PER_S, digits, parse_duration

LONGEST_COMMAND_S = 3600
_ITERATION = re.compile(r"iteration\s+(\d+)", re.ASCII)


class Event(Section, frozen=True, kw_only=True, omit_defaults=True):
    """A change of the device during the run: a link down, a port that sends slower, a profile in force, or a command.

    Attributes:
        at: since the first iteration began, warm-up included: `2s`; or when a measured one begins: `iteration 3`.
        port: `switch:port`.
        down: the link is down for this time: `300ms`; true: to the end of the run.
        shape: rate at which the port sends: `100Mbit`, or a share of its link's rate: `10 %`.
        profile: name or file; its rules are in force, their own times counted from `at`.
        do: a command and its arguments, run on this host without a shell: `[ssh, switch0, shutdown-port]`.
        limit: a command that takes longer is killed.
        lasts: key `for`: of shape and profile: how long; None: to the end of the run.
    """

    GROUP: ClassVar[str] = "events"
    at: str
    port: str | None = None
    down: str | bool | None = None
    shape: str | None = None
    profile: str | None = None
    do: tuple[str, ...] | None = None
    limit: str | None = None
    lasts: str | None = msgspec.field(name="for", default=None)

    def __post_init__(self) -> None:
        require_one_of(self, "down", "shape", "profile", "do")
        self._check_command()
        if self.down is False:
            raise ValueError("down: give how long, such as 300ms, or true for the rest of the run")
        if self.do is None and (self.port is None) is not (self.profile is not None):
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

    def _check_command(self) -> None:
        if self.do is None:
            if self.limit is not None:
                raise ValueError("limit: is for how long a command (do) may take")
            return
        if not self.do or not self.do[0] or any("\0" in one for one in self.do):
            raise ValueError("do: write a list: the command and its arguments, such as [ssh, switch0, reload]")
        if self.port is not None or self.lasts is not None:
            key = "port" if self.port is not None else "for"
            raise ValueError(
                f"{key}: leave it out: a command (do) has no port, and lasts until it ends, at most `limit`"
            )
        if not 0 < self.limit_s <= LONGEST_COMMAND_S:
            raise ValueError("limit: give a time above 0, at most one hour")

    @property
    def limit_s(self) -> float:
        """Of a command: how long it may take."""
        return 30.0 if self.limit is None else parse_duration(self.limit) / NS_PER_S

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
