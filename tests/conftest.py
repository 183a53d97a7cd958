"""What holds for the whole suite: which tests are measured for coverage, and what is printed at its end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from pathlib import Path

import pytest
from _pytest.terminal import TerminalReporter
from coverage import Coverage
from hypothesis import settings

from tests.support.full import examples

UNIT = Path(__file__).parent / "unit"

settings.register_profile("charkha", max_examples=examples(120), deadline=None)  # shared machines are noisy
settings.load_profile("charkha")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Coverage is what the unit tests reach: the others run without the tracer, which doubles the time of a property.

    It was never of the commands and agents that a test starts.
    """
    measured = None if item.path.is_relative_to(UNIT) else Coverage.current()
    if measured is None:
        return (yield)
    measured.stop()
    try:
        return (yield)
    finally:
        measured.start()


@pytest.fixture(autouse=True)
def _no_loaded_algorithms(monkeypatch: pytest.MonkeyPatch) -> None:
    """An algorithm that one test loads from a file is not there in the next one."""
    monkeypatch.setattr("emulator.planner.msccl.loaded._LOADED", {})


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    """How many of the tests that need root and namespaces ran: a suite that skipped them all is green, too."""
    counts = Counter(
        outcome
        for outcome in ("passed", "failed", "error", "skipped")
        for report in terminalreporter.stats.get(outcome, ())
        if isinstance(report, pytest.TestReport) and report.nodeid.startswith("tests/lab/")
    )
    if counts:
        ran = counts.total() - counts["skipped"]
        said = ", ".join(f"{count} {outcome}" for outcome, count in counts.items())
        terminalreporter.write_line(f"lab: {ran} of {counts.total()} tests ran ({said})")
