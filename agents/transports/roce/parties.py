"""Whom a queue pair on sockets has to do with, besides its peer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from emulator.roce.messages import Delivered, Message


class Owner(Protocol):
    """Whom a channel tells."""

    def delivered(self, index: int, delivered: Delivered, now: int) -> None:
        """A message from the peer is complete."""
        ...

    def arrived(self, index: int, tag: int, size: int, imm: int, now: int, count: int = 1) -> None:
        """So many WRITEs of one packet with immediate data have come from the peer, all alike."""
        ...

    def completed(self, index: int, messages: Sequence[Message], now: int) -> None:
        """The peer has these messages."""
        ...

    def broke(self, reason: str) -> None:
        """The connection is in error."""
        ...


class Neighbour(Protocol):
    """A rank of the same process."""

    def catch_up(self) -> None:
        """Take what has come, if it listens."""
        ...
