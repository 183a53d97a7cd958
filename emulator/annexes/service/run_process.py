"""Main module of a process that plays a run:
`python -m emulator.annexes.service.run_process LOCK PARENT COMMAND…`, as `charkha COMMAND…`.

It inherits a locked file, which the kernel unlocks when the process is gone. If the service is killed, it is
interrupted as by Ctrl-C, so traffic ends, the device gets its profile back, and the run folder is closed.
"""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

from emulator.cli.main import main
from emulator.host.resources import die_with_parent

_PARENT_ENDED = signal.SIGUSR1


def begin(lock: int, parent: int) -> None:
    """Be bound to the service: write the id of this process into the lock, end with the service."""
    os.truncate(lock, 0)
    os.pwrite(lock, str(os.getpid()).encode(), 0)
    signal.signal(_PARENT_ENDED, _interrupt_once)
    die_with_parent(_PARENT_ENDED)
    if os.getppid() != parent:  # it ended before it was asked about
        raise SystemExit(1)


def _interrupt_once(number: int, frame: FrameType | None) -> None:
    """The kernel may send the signal for every thread of the service; a second Ctrl-C would end the run unclosed."""
    signal.signal(number, signal.SIG_IGN)
    os.kill(os.getpid(), signal.SIGINT)


if __name__ == "__main__":
    begin(int(sys.argv[1]), int(sys.argv[2]))
    sys.exit(main(sys.argv[3:]))
