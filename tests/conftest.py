"""What holds for the whole suite: which processes are measured for coverage, and what is printed at its end."""

from __future__ import annotations

import os
import zlib
from collections import Counter
from collections.abc import Generator

import pytest
from _pytest.terminal import TerminalReporter
from hypothesis import settings

from tests.support.full import IS_FULL, examples

MEASURED_ONE_IN = 4

settings.register_profile("charkha", max_examples=examples(120), deadline=None)  # shared machines are noisy
settings.load_profile("charkha")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Coverage of the commands and agents that a test starts: of one test in four, as its name falls, else of all.

    To be measured costs a process as much as all that it does; the tests themselves always are.
    """
    is_measured = IS_FULL or zlib.crc32(item.nodeid.encode()) % MEASURED_ONE_IN == 0
    hidden = {name: os.environ.pop(name) for name in [*os.environ] if name.startswith("COVERAGE_") and not is_measured}
    try:
        return (yield)
    finally:
        os.environ.update(hidden)


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
