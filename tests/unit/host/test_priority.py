"""Priorities of processes; the kernel's are not touched."""

from __future__ import annotations

import pytest

from emulator.host.priority import LATER, below_agents, lower_priority


class Kernel:
    """The nice value of a process, and whether it may be lowered again."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, user: int, may_undo: bool = True) -> None:
        self.nice, self.may_undo, self.history = 0, may_undo, list[int]()
        monkeypatch.setattr("os.geteuid", lambda: user)
        monkeypatch.setattr("os.getpriority", lambda which, pid: self.nice)
        monkeypatch.setattr("os.setpriority", lambda which, pid, value: self.set(value))
        monkeypatch.setattr("os.nice", lambda more: self.set(self.nice + more))

    def set(self, value: int) -> None:
        if value < self.nice and not self.may_undo:
            raise PermissionError
        self.nice = value
        self.history.append(value)


def test_a_lowered_priority_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Kernel(monkeypatch, user=1000)
    lower_priority()
    assert kernel.nice == LATER


def test_root_runs_below_agents_and_returns_to_where_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Kernel(monkeypatch, user=0)
    with below_agents():
        assert kernel.nice == LATER
    assert kernel.history == [LATER, 0]


def test_it_returns_after_an_error_too(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Kernel(monkeypatch, user=0)
    with pytest.raises(ValueError, match="inside"), below_agents():
        raise ValueError("inside")
    assert kernel.nice == 0


def test_a_user_who_could_not_return_stays_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Kernel(monkeypatch, user=1000)
    with below_agents():
        assert kernel.history == []


def test_root_of_a_container_that_may_not_return_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Kernel(monkeypatch, user=0, may_undo=False)
    with below_agents():
        pass
    assert kernel.nice == LATER
