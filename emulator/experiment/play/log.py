"""Events of a run in the log, at level info."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from emulator.results.run_folder.observer import RunObserver
from emulator.units import format_duration

logger = logging.getLogger(__name__)


class RunLog(RunObserver):
    """Logs the agents that are missing, and the start, end and duration of iterations."""

    def waiting_for(self, agents: Sequence[str]) -> None:
        """See RunObserver."""
        logger.info("waiting for agents: %s", ", ".join(agents))

    def iteration_started(self, iteration: int) -> None:
        """See RunObserver."""
        logger.info("iteration %d begins%s", iteration, " (a warm-up)" if iteration < 0 else "")

    def iteration_done(self, iteration: int, jct_ns: int) -> None:
        """See RunObserver."""
        logger.info("iteration %d took %s", iteration, format_duration(jct_ns))

    def writing_trace(self) -> None:
        """See RunObserver."""
        logger.info("traffic is over, writing the measured trace")
