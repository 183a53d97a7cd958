"""Interface of observers of a session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from emulator.control.observations import Completions, ComputeSpans, FlowEvents, RankSummary, StepRecords


class SessionObserver(Protocol):
    """Receives the events of a session, on its thread."""

    def waiting_for(self, agents: Sequence[str]) -> None:
        """These agents have not joined yet."""
        ...

    def iteration_started(self, iteration: int) -> None:
        """All agents received the start of the iteration."""
        ...

    def completed(self, completions: Completions) -> None:
        """Communication nodes are done."""
        ...

    def wanted_steps(self) -> Mapping[int, Sequence[int]]:
        """Iteration → instances that are now the slowest of their class; asked for after `completed`."""
        ...

    def steps_recorded(self, records: StepRecords) -> None:
        """An agent sent the steps of instances."""
        ...

    def computed(self, spans: ComputeSpans) -> None:
        """Devices were busy."""
        ...

    def flow_events(self, events: FlowEvents) -> None:
        """What happened to the flows of one agent in an iteration: comes before the next one starts."""
        ...

    def iteration_done(self, iteration: int, summaries: Sequence[RankSummary]) -> None:
        """One agent's ranks completed the iteration."""
        ...

    def moved(self, bytes_sent: int) -> None:
        """Payload all agents have sent since the run began, in bytes."""
        ...

    def write(self) -> None:
        """Put what was reported on disk, even if the controller is killed next; called four times a second."""
        ...

    def agent_moved(self, agent: str, *, bytes_sent: int, nodes_done: int, waiting_on: str) -> None:
        """An agent reported its payload and completed nodes since the run began."""
        ...
