"""Limits of the kernel that this process has for a while."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def limited(which: int, most: int) -> Iterator[None]:
    """With so much at most of `which`, a number of `resource`; what is already there stays."""
    before = resource.getrlimit(which)
    resource.setrlimit(which, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(which, before)
