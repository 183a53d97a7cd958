"""Who follows a run while it goes on."""

from __future__ import annotations

from collections.abc import Sequence

from emulator.run_folder.schema import Columns


class RunObserver:
    """Told what happens in a run, on the controller's thread; what is not overridden is not looked at."""

    def waiting_for(self, agents: Sequence[str]) -> None:
        """These agents have not joined yet."""

    def iteration_started(self, iteration: int) -> None:
        """All agents were told to begin."""

    def completed(self, nodes: int) -> None:
        """So many more communication nodes are done."""

    def recorded(self, samples: Columns) -> None:
        """The same nodes as rows of the samples, see `SAMPLES_SCHEMA`; all of one iteration."""

    def iteration_done(self, iteration: int, jct_ns: int) -> None:
        """All ranks completed the iteration, so long after the first of them started."""

    def moved(self, bytes_sent: int) -> None:
        """Payload sent since the run began, bytes."""

    def agent_moved(self, agent: str, *, bytes_sent: int, nodes_done: int, waiting_on: str) -> None:
        """An agent gave a sign of life: its payload and completed nodes since the run began."""

    def writing_trace(self) -> None:
        """Playing is over, the measured trace is being written."""
