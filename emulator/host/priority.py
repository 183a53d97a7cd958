"""Who goes first where cores are few: agents, because what keeps them waiting is measured as the network's."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

LATER = 10
"""Added to the nice value of who can wait: about a tenth of an agent's share of a core that both want."""


def let_others_go_first() -> None:
    """For the rest of this thread."""
    os.nice(LATER)


@contextlib.contextmanager
def behind_agents() -> Iterator[None]:
    """This thread lets agents go first, if it may take that back: what it starts afterwards must not inherit it."""
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
