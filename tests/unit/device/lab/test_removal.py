"""What runs in a namespace is ended before the namespace is deleted."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from itertools import count

import pytest

from emulator.device.lab import removal
from emulator.device.lab.recipe import CommandBatch


@pytest.fixture
def killed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Signals that would have been sent: (process, signal). Time passes half a second at a time."""
    sent: list[tuple[int, int]] = []
    times: Iterator[int] = count()
    monkeypatch.setattr("os.kill", lambda pid, number: sent.append((pid, number)))
    monkeypatch.setattr("time.monotonic", lambda: next(times) / 2)
    monkeypatch.setattr("time.sleep", lambda _: None)
    return sent


def test_processes_are_asked_to_end_before_they_are_killed(
    killed: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    stubborn = [f"7 8 {os.getpid()}", "8", "8", "8", ""]

    def attempt(batch: CommandBatch) -> str:
        return stubborn.pop(0) if stubborn else ""

    monkeypatch.setattr(removal, "attempt", attempt)
    removal._end_processes(["charkha-x-h0"])
    assert [pid for pid, _ in killed] == [7, 8, 8, 8, 8]
    assert [number for _, number in killed] == [signal.SIGTERM] * 3 + [signal.SIGKILL] * 2
    assert os.getpid() not in {pid for pid, _ in killed}


def test_a_process_that_ended_meanwhile_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = ["7", ""]

    def gone(pid: int, number: int) -> None:
        raise ProcessLookupError

    monkeypatch.setattr("os.kill", gone)
    monkeypatch.setattr(removal, "attempt", lambda _: listed.pop(0))
    removal._end_processes(["charkha-x-h0"])
    assert listed == []


def test_processes_of_all_namespaces_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    inside = {"a": "1\n2\n", "b": "", "c": "3"}
    monkeypatch.setattr(removal, "attempt", lambda batch: inside[batch.command[-1]])
    assert removal.processes_in("abc") == [1, 2, 3]
