"""Progress of a run on stderr."""

import io
import sys

import pytest

from emulator.results.run_folder.observer import IterationStarted, Moved, Recorded, WaitingFor, WritingTrace
from emulator.views.terminal.progress import RunProgress, make_display


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Stderr as a terminal from now on."""
    out = Terminal()
    monkeypatch.setattr(sys, "stderr", out)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "160")
    return out


def log_file(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """Stderr as a file from now on."""
    out = io.StringIO()
    monkeypatch.setattr(sys, "stderr", out)
    return out


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_terminal_shows_iteration_nodes_and_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    out = terminal(monkeypatch)
    clock = Clock()
    with make_display() as display:
        shown = RunProgress(display, nodes=40, iterations=3, clock=clock)
        shown.tell(IterationStarted(-1))
        shown.tell(IterationStarted(0))
        shown.tell(Recorded({"rank": range(50)}))
        clock.now += 1
        shown.tell(Moved(250_000_000))
    text = out.getvalue()
    assert "iteration 2/3" in text
    assert "50/120" in text
    assert "communication nodes" in text
    assert "2.00 Gbit/s payload" in text


def test_warm_up_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    out = terminal(monkeypatch)
    with make_display() as display:
        shown = RunProgress(display, nodes=1, iterations=2)
        shown.tell(IterationStarted(-1))
    assert "warm-up 1/2" in out.getvalue()


def test_the_rate_is_that_of_at_least_half_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    out = terminal(monkeypatch)
    clock = Clock()
    with make_display() as display:
        shown = RunProgress(display, nodes=1, iterations=1, clock=clock)
        clock.now += 0.4
        shown.tell(Moved(10**12))
    assert "Gbit/s" not in out.getvalue()


def test_a_log_file_has_no_progress_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    out = log_file(monkeypatch)
    with make_display() as display:
        shown = RunProgress(display, nodes=1, iterations=1)
        shown.tell(WaitingFor(["a0"]))
        shown.tell(IterationStarted(0))
        shown.tell(Recorded({"rank": range(1)}))
        shown.tell(Moved(1))
        shown.tell(WritingTrace())
    assert out.getvalue() == ""


def test_a_log_file_has_a_line_every_ten_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    out = log_file(monkeypatch)
    clock = Clock()
    with make_display() as display:
        shown = RunProgress(display, nodes=40, iterations=3, clock=clock)
        shown.tell(IterationStarted(-1))
        for second in range(1, 25):
            clock.now += 1
            shown.tell(Recorded({"rank": range(1)}))
            shown.tell(Moved(second * 125_000_000))
            if second == 15:
                shown.tell(IterationStarted(0))
    assert out.getvalue().splitlines() == [
        "charkha: iteration 1 of 3, 8 % of the communications are done, 1.00 Gbit/s payload, about 110 s left",
        "charkha: iteration 2 of 3, 17 % of the communications are done, 1.00 Gbit/s payload, about 100 s left",
    ]


def test_before_anything_is_done_nothing_is_estimated(monkeypatch: pytest.MonkeyPatch) -> None:
    out = log_file(monkeypatch)
    clock = Clock()
    with make_display() as display:
        shown = RunProgress(display, nodes=0, iterations=1, clock=clock)
        clock.now += 10
        shown.tell(Moved(0))
    assert out.getvalue() == ("charkha: iteration 0 of 1, 0 % of the communications are done, 0.00 Gbit/s payload\n")


def test_a_log_file_names_the_agents_to_start_once(monkeypatch: pytest.MonkeyPatch) -> None:
    out = log_file(monkeypatch)
    with make_display() as display:
        shown = RunProgress(display, nodes=1, iterations=1, dialling=["b0", "b1\x1b[2J"], address="192.0.2.1:4790")
        shown.tell(WaitingFor(["a0", "b0", "b1\x1b[2J"]))
        shown.tell(WaitingFor(["b0"]))
        shown.tell(WaitingFor([]))
    assert out.getvalue() == r"charkha: waiting for agents b0, b1\x1b[2J to connect to 192.0.2.1:4790" + "\n"


def test_of_very_many_agents_some_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    out, agents = log_file(monkeypatch), [f"a{number}" for number in range(512)]
    with make_display() as display:
        shown = RunProgress(display, nodes=1, iterations=1, dialling=agents, address="192.0.2.1:4790")
        shown.tell(WaitingFor(agents))
    assert out.getvalue().endswith("a14, a15 and 496 more to connect to 192.0.2.1:4790\n")


def test_a_terminal_shows_which_agents_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    out = terminal(monkeypatch)
    with make_display() as display:
        shown = RunProgress(display, nodes=1, iterations=1, dialling=["b0"], address="192.0.2.1:4790")
        shown.tell(WaitingFor(["b0"]))
    assert "waiting for agent b0 to connect to 192.0.2.1:4790" in out.getvalue()
    with make_display() as display:
        shown = RunProgress(display, nodes=1, iterations=1)
        shown.tell(WritingTrace())
    assert "writing the measured trace" in out.getvalue()
