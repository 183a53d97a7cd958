"""The clocks of agents on other hosts: looked at before and after every iteration, and while it goes on."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from emulator.control import conversation as control
from emulator.controller.clocks.clock_offset import FASTEST_DRIFT, ClockEstimate, ClockExchange, ClockWatch
from emulator.host.clock import clock_id

FIRST_BURST, NEXT_BURST = 48, 16
"""Exchanges with an agent of another clock, when it joins and around each iteration."""
LOOKS = 64
"""Clocks that are looked at together in the midst of traffic."""


class AgentClocks:
    """Watches the clock of every agent that does not share the controller's."""

    def __init__(self) -> None:
        self._own = clock_id()
        self._watches: dict[str, ClockWatch] = {}
        self._settling: list[Callable[[], None]] = []
        self._looked = 0  # clocks, in this round

    def add(self, agent: str, agent_clock: str, send: Callable[[control.ControllerValue], None]) -> None:
        """An agent has joined; `agent_clock` identifies its clock, "" if it does not know."""
        if self._own and agent_clock == self._own:
            return
        self._watches[agent] = ClockWatch(lambda: send(control.ClockQuery(0)))
        self._watches[agent].burst(FIRST_BURST)

    def ahead_ns(self, agent: str) -> int:
        """How far its clock is ahead of the controller's, as known now; 0 if they share one."""
        return self._watches[agent].offset_ns if agent in self._watches else 0

    def error_ns(self, agent: str, *, since_ns: int) -> int:
        """How far off what was known of its clock at a time may be by now; 0 if it is the controller's."""
        if agent not in self._watches:
            return 0
        return self._watches[agent].error_ns + int(FASTEST_DRIFT * (time.monotonic_ns() - since_ns))

    def note(self, agent: str, reply: control.ClockReply) -> None:
        """A reply to a query has arrived."""
        if agent in self._watches:
            exchange = ClockExchange(reply.query_sent_ns, reply.received_ns, reply.sent_ns, time.monotonic_ns())
            self._watches[agent].heard(exchange)

    def settle_then(self, then: Callable[[], None]) -> None:
        """Look at all clocks, then call `then`; while they are looked at for another, both are called together."""
        self._settling.append(then)
        if len(self._settling) > 1:
            return
        waiting = set(self._watches)

        def known(name: str) -> None:
            waiting.discard(name)
            if not waiting:
                self._settled()

        for name, watch in self._watches.items():
            watch.burst(NEXT_BURST, partial(known, name))
        if not self._watches:
            self._settled()

    def _settled(self) -> None:
        settling, self._settling = self._settling, []
        for then in settling:
            then()

    def look(self) -> None:
        """Query some in turn in the midst of traffic: slow replies still show if a clock did not drift evenly."""
        watches = list(self._watches.values())
        for watch in watches[self._looked : self._looked + LOOKS]:
            watch.look()
        self._looked = self._looked + LOOKS if self._looked + LOOKS < len(watches) else 0

    def estimates(self) -> dict[str, ClockEstimate]:
        """Agent → its offsets over the run, as far as they are known."""
        found = {name: watch.estimate() for name, watch in self._watches.items()}
        return {name: estimate for name, estimate in found.items() if estimate is not None}
