"""What the kernel does for a process: limits on descriptors, threads and memory, its priority, its end with its parent.

Libraries in C++ end the process without a word where they cannot have a thread, a descriptor or memory. So a command
takes what they will need, and gives it back, before it calls them.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import mmap
import os
import re
import resource
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from emulator.errors import HostError

_NO_THREAD = ("can't start new thread", "Failed to launch worker thread")  # CPython's words, and Arrow's
_NO_MAPPING = ("failed to map segment", "annot allocate memory")  # the dynamic linker's
_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)
_MIB = 1 << 20
_MOST_DESCRIPTORS = 1 << 16
_M_ARENA_MAX = -8  # malloc.h
LIBRARIES_BYTES = 256 << 20
"""Address space that numpy, Arrow and gRPC take; OpenBLAS tries for ever where it finds no place."""


def reserve(*, descriptors: int = 0, threads: int = 0, memory_bytes: int = 0) -> None:
    """Check that this process can have so much more than it has; everything is given back at once.

    Raises:
        HostError: a limit does not allow it.
    """
    try:
        with ExitStack() as held:
            for _ in range(descriptors):
                held.callback(os.close, os.open(os.devnull, os.O_RDONLY))
        with ExitStack() as held:
            if memory_bytes:  # first: stacks of threads are memory, too
                held.callback(mmap.mmap(-1, memory_bytes).close)
            joined, release = held.enter_context(ExitStack()), threading.Event()
            held.callback(release.set)
            for _ in range(threads):
                one = threading.Thread(target=release.wait, daemon=True)
                one.start()
                joined.callback(one.join)
    except (OSError, RuntimeError, MemoryError) as error:
        raise exhausted(error) or error from error


def free_memory_bytes(meminfo: Path = Path("/proc/meminfo")) -> int | None:
    """What processes of this host can have in addition before it swaps; None: the kernel does not say."""
    found = re.search(r"^MemAvailable: +(\d+) kB$", meminfo.read_text() if meminfo.exists() else "", re.MULTILINE)
    return None if found is None else int(found[1]) << 10


def raise_descriptors() -> int:
    """Raise the limit of descriptors of this process as far as it may; returns the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = _MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _MOST_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < highest:
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def exhausted(error: BaseException) -> HostError | None:
    """What the host or a limit refused, as the error for the user; None if the error is about something else."""
    for one in _leaves(error):
        if isinstance(one, OSError) and one.errno in _DESCRIPTORS:
            return HostError(f"too many open files{_limit(resource.RLIMIT_NOFILE)}: raise the limit with `ulimit -n`")
        if not isinstance(one, OSError) and any(words in str(one) for words in _NO_THREAD):
            return HostError(
                f"cannot start a thread{_limit(resource.RLIMIT_NPROC)}: raise `ulimit -u`, "
                "the memory limit `ulimit -v`, or the limits of the container"
            )
        if _is_about_memory(one):
            return HostError(
                f"out of memory{_limit(resource.RLIMIT_AS, _MIB, ' MiB')}: raise `ulimit -v` or "
                "the limit of the container, free memory, or play fewer ranks here"
            )
    return None


def _is_about_memory(error: BaseException) -> bool:
    if isinstance(error, MemoryError):
        return True
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    return isinstance(error, ImportError) and any(words in str(error) for words in _NO_MAPPING)


def _leaves(error: BaseException) -> Iterator[BaseException]:
    """An error and what it came of; those that it holds, if it is a group."""
    if isinstance(error, BaseExceptionGroup):
        for one in error.exceptions:
            yield from _leaves(one)
    else:
        seen: BaseException | None = error
        while seen is not None:
            yield seen
            seen = seen.__cause__


def _limit(which: int, unit: int = 1, name: str = "") -> str:
    """` (the limit is 64)`, nothing if there is none."""
    limit = resource.getrlimit(which)[0]
    return "" if limit == resource.RLIM_INFINITY else f" (the limit is {limit // unit}{name})"


LATER = 10
"""Added to the nice value of other processes: they get about a tenth of an agent's share of a core that both need."""


FIRST = 10
"""Taken off the nice value of agents: beside a process that is always busy, a small collective then takes 1.3 times as
long instead of 4 times (p90; lab.benchmarks.verdicts busy)."""


def raise_priority(kernel: Any = os) -> None:
    """Let this thread, and those that it starts later, come before other processes, if it has the right to.

    Where a parent has done so already, that is enough.
    `kernel` has the functions of `os` about priorities, here and below.
    """
    usual = kernel.getpriority(os.PRIO_PROCESS, 0)
    with contextlib.suppress(PermissionError):
        kernel.setpriority(os.PRIO_PROCESS, 0, min(usual, max(usual - FIRST, -FIRST)))


def lower_priority(kernel: Any = os) -> None:
    """Lower the priority of this thread for good."""
    kernel.nice(LATER)


@contextlib.contextmanager
def below_agents(kernel: Any = os) -> Iterator[None]:
    """Run with a lower priority than agents, if the right to undo it exists: later children must not inherit it."""
    usual = kernel.getpriority(os.PRIO_PROCESS, 0)
    if kernel.geteuid() != 0:
        yield
        return
    kernel.setpriority(os.PRIO_PROCESS, 0, usual + LATER)
    try:
        yield
    finally:
        with contextlib.suppress(PermissionError):  # root of a container may lack the right
            kernel.setpriority(os.PRIO_PROCESS, 0, usual)


_PR_SET_PDEATHSIG = 1  # prctl(2)


def share_heap() -> None:
    """Let threads that start from now on allocate from the heap of the others.

    The C library gives each thread a heap of its own, and each keeps the most that its thread ever needed: a process
    that works in short turns on several threads grows with every thread that gets a large one. With the interpreter's
    lock they hardly ever allocate at once. C libraries without mallopt(3) have no such heaps.
    """
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        libc.mallopt(_M_ARENA_MAX, 1)


def die_with_parent(number: signal.Signals = signal.SIGKILL) -> None:
    """Have the kernel kill this process, or send it another signal, when the thread that started it ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number)
