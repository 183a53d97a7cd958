"""Several who follow one run."""

from __future__ import annotations

from collections.abc import Sequence

from emulator.controller.job import JobObserver
from emulator.results.schema import Columns


class Followers:
    """A JobObserver that tells several others, in order."""

    def __init__(self, followers: Sequence[JobObserver]) -> None:
        self._followers = followers

    def waiting_for(self, agents: Sequence[str]) -> None:
        """See JobObserver."""
        for one in self._followers:
            one.waiting_for(agents)

    def iteration_started(self, iteration: int) -> None:
        """See JobObserver."""
        for one in self._followers:
            one.iteration_started(iteration)

    def completed(self, nodes: int) -> None:
        """See JobObserver."""
        for one in self._followers:
            one.completed(nodes)

    def recorded(self, samples: Columns) -> None:
        """See JobObserver."""
        for one in self._followers:
            one.recorded(samples)

    def iteration_done(self, iteration: int, jct_ns: int) -> None:
        """See JobObserver."""
        for one in self._followers:
            one.iteration_done(iteration, jct_ns)

    def moved(self, bytes_sent: int) -> None:
        """See JobObserver."""
        for one in self._followers:
            one.moved(bytes_sent)

    def agent_moved(self, agent: str, *, bytes_sent: int, nodes_done: int, waiting_on: str) -> None:
        """See JobObserver."""
        for one in self._followers:
            one.agent_moved(agent, bytes_sent=bytes_sent, nodes_done=nodes_done, waiting_on=waiting_on)

    def writing_trace(self) -> None:
        """See JobObserver."""
        for one in self._followers:
            one.writing_trace()
