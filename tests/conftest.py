"""What the whole suite prints at its end."""

from __future__ import annotations

from collections import Counter

import pytest
from _pytest.terminal import TerminalReporter


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
