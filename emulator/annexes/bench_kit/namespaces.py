"""Network namespaces of a lab."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from pyroute2 import netns

from emulator.errors import HostError

_OWN = "/proc/thread-self/ns/net"


@contextmanager
def inside(namespace: str | None) -> Iterator[None]:
    """Run the body of the `with` in a network namespace.

    Args:
        namespace: its name; None for the present one.

    Raises:
        HostError: it cannot be entered.
    """
    if namespace is None:
        yield
        return
    own = os.open(_OWN, os.O_RDONLY)
    try:
        try:
            netns.setns(namespace)
        except OSError as error:
            raise HostError(f"namespace {namespace} cannot be entered ({error}): run the command with sudo") from error
        yield
    finally:
        netns.setns(own)
        os.close(own)
