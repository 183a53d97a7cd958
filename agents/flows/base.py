"""What plays a flow of a run beside the ranks of its agent: an actor. Kinds of flows are found in registry.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from emulator.control.flows import FlowFigures


class FlowActor(Protocol):
    """One flow. Everything it starts ends with `close`."""

    @property
    def waiting_for(self) -> str:
        """What it waits for, in words."""
        ...

    @property
    def addresses(self) -> Sequence[str]:
        """Numeric addresses that it plays at, connects to, and sends to."""
        ...

    async def prepare(self) -> None:
        """Meet the peer, before any traffic.

        Raises:
            EmulatorError: the peer does not answer or is not what it should be, or this host lacks something.
        """
        ...

    async def play(self, at_ns: int) -> None:
        """Traffic, from the moment that the clock reaches `at_ns` until the flow is complete.

        Raises:
            EmulatorError: it cannot be completed.
        """
        ...

    def end(self) -> None:
        """The job is over: a flow without an end of its own ends, and `play` returns soon."""
        ...

    def figures(self) -> Sequence[FlowFigures]:
        """What has been counted so far."""
        ...

    def close(self) -> None:
        """Stop at once; idempotent."""
        ...
