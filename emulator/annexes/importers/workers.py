"""Ranks of a large trace read, or written, by several processes of this machine at a time."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

from emulator.errors import HostError
from emulator.host.orphan import die_with_parent

WORTH_BYTES = 32 << 20
"""With less to read, starting processes takes longer than they save."""

T = TypeVar("T")
R = TypeVar("R")


def run_all(
    work: Callable[[T], R],
    tasks: Sequence[T],
    *,
    total_bytes: int,
    on_done: Callable[[int, int], None] | None = None,
) -> list[R]:
    """The results of `work`, in the order of the tasks: the same with any number of processes.

    Args:
        work: a function of a module.
        tasks: can be pickled, as the results.
        total_bytes: what there is to read: whether processes are worth it.
        on_done: called with (tasks done, tasks).

    Raises:
        HostError: a process ended before its task was done.
    """
    processes = min(len(tasks), len(os.sched_getaffinity(0)))
    if processes < 2 or total_bytes < WORTH_BYTES:
        return [_noted(work(task), number, len(tasks), on_done) for number, task in enumerate(tasks, 1)]
    context = multiprocessing.get_context("spawn")  # this process may have threads
    with ProcessPoolExecutor(processes, mp_context=context, initializer=_begin) as pool:
        return _all(pool, work, tasks, on_done)


def _all(
    pool: Executor, work: Callable[[T], R], tasks: Sequence[T], on_done: Callable[[int, int], None] | None
) -> list[R]:
    futures = [pool.submit(work, task) for task in tasks]
    try:
        for number, future in enumerate(as_completed(futures), 1):
            _noted(future.result(), number, len(tasks), on_done)
        return [future.result() for future in futures]
    except BrokenProcessPool as error:
        problem = "a process that read or wrote a rank was killed"
        raise HostError(f"{problem}: is there enough memory? Fewer cores (taskset) need less") from error
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        raise


def _noted(result: R, number: int, count: int, on_done: Callable[[int, int], None] | None) -> R:
    if on_done is not None:
        on_done(number, count)
    return result


def _begin() -> None:
    """An interrupt ends a process without a word, and so does the end of the command."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    die_with_parent()
