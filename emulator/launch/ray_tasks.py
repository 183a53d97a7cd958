"""Functions called on the nodes of a Ray cluster, as an executor of the standard library."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextlib import suppress
from pathlib import Path
from typing import Any, ParamSpec, Self, TypeVar

from emulator.launch.ray_engine import connected

P = ParamSpec("P")
R = TypeVar("R")


class RayExecutor(Executor):
    """Calls functions on the nodes of a cluster; a context manager, as every executor.

    Args:
        address: of the cluster, see `connected`.
    """

    def __init__(self, address: str) -> None:
        self._address = address

    def __enter__(self) -> Self:
        """Connect. Raises HostError, see `connected`."""
        self._ray = connected(self._address)
        return self

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        """Call a function of a module on some node, in this working folder; what it raises is raised here."""
        own: Future[R] = Future()
        call = self._ray.remote(_in_folder).remote(Path.cwd(), fn, *args, **kwargs)
        call.future().add_done_callback(lambda done: _settle(own, done, self._ray.exceptions.RayTaskError))
        return own

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Disconnect, which ends calls that still run; `wait` and `cancel_futures` change nothing."""
        self._ray.shutdown()


def _in_folder(folder: Path, fn: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    with suppress(OSError):  # absolute paths may be all that is needed
        os.chdir(folder)
    return fn(*args, **kwargs)


def _settle(own: Future[Any], done: Future[Any], wrapper: type[Any]) -> None:
    error = done.exception()
    if error is None:
        own.set_result(done.result())
    else:
        own.set_exception(error.cause if isinstance(error, wrapper) else error)
