"""Limits of the kernel that this process has for a while."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def open_descriptors() -> int:
    """How many files this process has open."""
    return len(list(Path("/proc/self/fd").iterdir()))


@contextmanager
def limited(which: int, most: int) -> Iterator[None]:
    """With so much at most of `which`, a number of `resource`; what is already there stays."""
    before = resource.getrlimit(which)
    resource.setrlimit(which, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(which, before)
