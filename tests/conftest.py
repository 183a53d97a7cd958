"""What holds for the whole suite: marks, which tests are measured for coverage, and what is printed at its end."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Generator
from pathlib import Path

import pytest
from _pytest.terminal import TerminalReporter
from coverage import Coverage
from hypothesis import is_hypothesis_test, settings

from tests.support import shared_traces
from tests.support.full import examples
from tests.support.skips import skip_lines, skip_reason

PROPERTIES = Path(__file__).parent / "property"

settings.register_profile("charkha", max_examples=examples(120), deadline=None)  # shared machines are noisy
settings.load_profile("charkha")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is imported and collected stays to the end: looking for garbage in it takes a third of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Coverage is what all tests but the properties reach, in the process of the suite.

    Tracing makes a property last two to three times as long, and what it tries again and again is covered once.
    """
    measured = Coverage.current() if is_property(item) else None
    if measured is None:
        return (yield)
    measured.stop()
    try:
        return (yield)
    finally:
        measured.start()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the modules that read published traces, which are there only where the project is developed."""
    for item in items:
        names = vars(item.module).values() if isinstance(item, pytest.Function) else ()
        if any(getattr(one, "__module__", "") == shared_traces.__name__ for one in names):
            item.add_marker(pytest.mark.shared)


def is_property(item: pytest.Item) -> bool:
    """Whether it is tried with many examples, of hypothesis or of its own."""
    return item.path.is_relative_to(PROPERTIES) or is_hypothesis_test(getattr(item, "obj", None))


@pytest.fixture(autouse=True)
def _no_loaded_algorithms(monkeypatch: pytest.MonkeyPatch) -> None:
    """An algorithm that one test loads from a file is not there in the next one."""
    monkeypatch.setattr("emulator.planner.msccl.loaded._LOADED", {})


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    """What was left out and why, and how many tests of labs ran: a suite that skipped them all is green, too."""
    skipped = terminalreporter.stats.get("skipped", ())
    lines = list(skip_lines(skip_reason(report.longrepr) for report in skipped))
    if lines:
        terminalreporter.section("left out")
        for line in lines:
            terminalreporter.write_line(line)
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
