"""No process outlives the command that started it, even one that was killed."""

from __future__ import annotations

import ctypes
import signal

_PR_SET_PDEATHSIG = 1  # prctl(2)


def die_with_parent(number: signal.Signals = signal.SIGKILL) -> None:
    """Have the kernel kill this process, or send it another signal, when the thread that started it ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number)
