"""What a limit refused is named with the limit; what is about something else is not."""

from __future__ import annotations

import errno
import resource
import threading

import pytest

from emulator.errors import HostError
from emulator.host.resources import exhausted, reserve
from tests.support.limits import limited

MIB = 1 << 20


def test_what_is_there_is_reserved_and_given_back() -> None:
    threads = threading.active_count()
    for _ in range(20):
        reserve(descriptors=8, threads=2, memory_bytes=MIB)
    assert threading.active_count() <= threads + 2


def test_missing_descriptors_are_named_with_the_limit() -> None:
    with limited(resource.RLIMIT_NOFILE, 64), pytest.raises(HostError, match=r"open files \(the limit is 64\).*-n`"):
        reserve(descriptors=100)


def test_missing_memory_is_named() -> None:
    with pytest.raises(HostError, match=r"out of memory.*`ulimit -v`"):
        reserve(memory_bytes=1 << 50)


def test_missing_threads_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(HostError, match=r"cannot start a thread.*`ulimit -u`"):
        reserve(threads=1)


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (MemoryError(), "out of memory"),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), "out of memory"),
        (ImportError("libarrow.so.2600: failed to map segment from shared object"), "out of memory"),
        (OSError(errno.EMFILE, "Too many open files"), "too many open files"),
        (
            Exception("Unknown error: Failed to launch worker thread: Resource temporarily unavailable"),
            "cannot start a thread",
        ),
        (ExceptionGroup("tasks", [ValueError(), RuntimeError("can't start new thread")]), "cannot start a thread"),
    ],
)
def test_what_libraries_say_of_a_limit_is_understood(error: Exception, says: str) -> None:
    assert says in str(exhausted(error))


def test_a_cause_is_found() -> None:
    error = ValueError("a symptom")
    error.__cause__ = MemoryError()
    assert "out of memory" in str(exhausted(error))


@pytest.mark.parametrize(
    "error", [RuntimeError("other"), OSError(errno.EPIPE, "x"), ImportError("no module"), KeyError()]
)
def test_other_errors_are_not_taken_for_it(error: Exception) -> None:
    assert exhausted(error) is None
