"""Process priority: agents come first on a busy host, because their delays would be measured as the network's."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

LATER = 10
"""Added to the nice value of other processes: they get about a tenth of an agent's share of a core that both need."""


def lower_priority() -> None:
    """Lower the priority of this thread for good."""
    os.nice(LATER)


@contextlib.contextmanager
def below_agents() -> Iterator[None]:
    """Run with a lower priority than agents, if the right to undo it exists: later children must not inherit it."""
    usual = os.getpriority(os.PRIO_PROCESS, 0)
    if os.geteuid() != 0:
        yield
        return
    os.setpriority(os.PRIO_PROCESS, 0, usual + LATER)
    try:
        yield
    finally:
        with contextlib.suppress(PermissionError):  # root of a container may lack the right
            os.setpriority(os.PRIO_PROCESS, 0, usual)
