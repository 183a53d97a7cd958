"""What a limit refused is named with the limit; what is about something else is not."""

import ctypes
import errno
import resource
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from emulator.errors import HostError
from emulator.host.resources import (
    FIRST,
    LATER,
    below_agents,
    exhausted,
    free_memory_bytes,
    lower_priority,
    raise_priority,
    reserve,
)
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


def test_free_memory_is_what_the_kernel_says_or_not_known(tmp_path: Path) -> None:
    (tmp_path / "meminfo").write_text("MemTotal:  4000 kB\nMemFree:  1 kB\nMemAvailable:   2000 kB\n")
    assert free_memory_bytes(tmp_path / "meminfo") == 2000 << 10
    assert free_memory_bytes(tmp_path / "none") is None


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


class Kernel:
    """In place of `os`: the nice value of a process, and whether it may be lowered again."""

    def __init__(self, *, user: int, may_undo: bool = True) -> None:
        self.value, self.may_undo, self.history = 0, may_undo, list[int]()
        self.geteuid = lambda: user

    def nice(self, more: int) -> None:
        self.setpriority(0, 0, self.value + more)

    def getpriority(self, which: int, pid: int) -> int:
        return self.value

    def setpriority(self, which: int, pid: int, value: int) -> None:
        if value < self.value and not self.may_undo:
            raise PermissionError
        self.value = value
        self.history.append(value)


def test_a_lowered_priority_stays() -> None:
    kernel = Kernel(user=1000)
    lower_priority(kernel)
    assert kernel.value == LATER


def test_an_agent_comes_first_where_it_may() -> None:
    kernel = Kernel(user=0)
    raise_priority(kernel)
    assert kernel.value == -FIRST


@pytest.mark.parametrize(("before", "after"), [(LATER, LATER - FIRST), (-FIRST, -FIRST), (-19, -19)])
def test_an_agent_of_a_process_that_comes_first_goes_no_further(before: int, after: int) -> None:
    kernel = Kernel(user=0)
    kernel.value = before
    raise_priority(kernel)
    assert kernel.value == after


def test_an_agent_without_the_right_plays_as_it_is() -> None:
    kernel = Kernel(user=1000, may_undo=False)
    raise_priority(kernel)
    assert kernel.history == []


def test_root_runs_below_agents_and_returns_to_where_it_was() -> None:
    kernel = Kernel(user=0)
    with below_agents(kernel):
        assert kernel.value == LATER
    assert kernel.history == [LATER, 0]


def test_it_returns_after_an_error_too() -> None:
    kernel = Kernel(user=0)
    with pytest.raises(ValueError, match="inside"), below_agents(kernel):
        raise ValueError("inside")
    assert kernel.value == 0


def test_a_user_who_could_not_return_stays_where_it_is() -> None:
    kernel = Kernel(user=1000)
    with below_agents(kernel):
        assert kernel.history == []


def test_root_of_a_container_that_may_not_return_goes_on() -> None:
    kernel = Kernel(user=0, may_undo=False)
    with below_agents(kernel):
        pass
    assert kernel.value == LATER


_CHILD = """
import signal
from emulator.host.resources import die_with_parent

die_with_parent()
signal.alarm(20)
print("ready", flush=True)
signal.pause()
"""
_PARENT = f"""
import os, signal, subprocess, sys

child = subprocess.Popen([sys.executable, "-c", {_CHILD!r}], stdout=subprocess.PIPE)
child.stdout.readline()
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_it_ends_when_its_parent_is_killed() -> None:
    # The child holds stderr too: reading to its end is waiting for both.
    ran = subprocess.run([sys.executable, "-c", _PARENT], stderr=subprocess.PIPE, timeout=10, check=False)
    assert (ran.returncode, ran.stderr) == (-9, b"")


HEAPS = """
import ctypes, sys, threading
from emulator.host.resources import share_heap
if sys.argv[1:] == ["shared"]:
    share_heap()
libc = ctypes.CDLL(None)
libc.fopen.restype = ctypes.c_void_p
everybody, kept = threading.Barrier(4), []
def work():
    kept.append(bytearray(100_000))
    everybody.wait()
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
file = ctypes.c_void_p(libc.fopen(b"/dev/stdout", b"w"))
libc.malloc_info(0, file)
libc.fclose(file)
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="the C library has no mallopt")
def test_threads_share_a_heap() -> None:
    own, shared = (
        subprocess.run(
            [sys.executable, "-P", "-c", HEAPS, *words], check=True, capture_output=True, text=True
        ).stdout.count("<heap nr=")
        for words in ([], ["shared"])
    )
    assert shared == 1 < own
