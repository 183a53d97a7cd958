"""Samples the process that imports this at its start, on behalf of `python -m lab.benchmarks.profile`.

Whenever the process has used some processor time, a line says what its main thread was doing. The kernel looks at its
clock ticks only, so a line also has the time that was used since the line before.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import time
from pathlib import Path
from types import FrameType

FOLDER, INTERVAL_S = "CHARKHA_PROFILE_FOLDER", 0.001
_ROOT = f"{Path(__file__).resolve().parents[3]}{os.sep}"
_ROOMS = ("agents", "emulator")
_LOOP = "asyncio/base_events.py"


def _room(frame: FrameType | None) -> str:
    """The innermost module of the project above the event loop; "" if there is none."""
    while frame is not None:
        path = frame.f_code.co_filename
        if path.endswith(_LOOP):
            return ""
        if path.startswith(_ROOT) and path[len(_ROOT) :].split(os.sep, 1)[0] in _ROOMS:
            return path[len(_ROOT) :].removesuffix(".py").replace(os.sep, ".")
        frame = frame.f_back
    return ""


class _Sampler:
    def __init__(self, folder: str) -> None:
        self._file = os.open(Path(folder) / str(os.getpid()), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._main_ns, self._all_ns = time.thread_time_ns(), time.process_time_ns()

    def take(self, _: int, frame: FrameType | None) -> None:
        main_ns, all_ns = time.thread_time_ns(), time.process_time_ns()
        used_ns, others_ns = main_ns - self._main_ns, all_ns - self._all_ns - (main_ns - self._main_ns)
        self._main_ns, self._all_ns = main_ns, all_ns
        line = f"{time.monotonic_ns()} {used_ns} {others_ns} {_room(frame) or '-'}\n"
        os.write(self._file, line.encode())


if FOLDER in os.environ and "-c" not in sys.orig_argv:
    signal.signal(signal.SIGPROF, _Sampler(os.environ[FOLDER]).take)
    signal.setitimer(signal.ITIMER_PROF, INTERVAL_S, INTERVAL_S)
    atexit.register(signal.setitimer, signal.ITIMER_PROF, 0)  # later nobody handles the signal, and it kills
