"""What happened to the flows of an agent since the iteration before."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agents.transports.base import FlowCounters
from emulator.control.observations import join_ends


class FlowHistory:
    """Remembers the counters of flows with events, and only of those."""

    def __init__(self) -> None:
        self._before: dict[tuple[int, int, int | None], FlowCounters] = {}

    def news(self, flows: Iterable[FlowCounters]) -> Sequence[FlowCounters]:
        """Events since the last call, one row per flow with any.

        Args:
            flows: counters since the run began, of either end or of both; flows without events may be missing.
        """
        news = []
        for flow in join_ends(flows):
            key = (flow.src, flow.dst, flow.qpn)
            since = flow.events_since(self._before.get(key))
            self._before[key] = flow
            if since.has_events:
                news.append(since)
        return news
