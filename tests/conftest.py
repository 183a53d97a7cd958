"""What holds for the whole suite: marks, which tests are measured for coverage, and what is printed at its end."""

import asyncio
import gc
import inspect
import os
import signal
from collections import Counter
from collections.abc import Generator
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest
from _pytest.terminal import TerminalReporter
from coverage import Coverage
from hypothesis import is_hypothesis_test, settings

from tests.support import shared_traces
from tests.support.full import IS_FULL, examples
from tests.support.skips import skip_lines, skip_reason

NICE = os.getpriority(os.PRIO_PROCESS, 0)
PROPERTIES = Path(__file__).parent / "property"

# Shared machines are noisy, so there is no deadline. The same commit gives the same answer: `--full` looks further.
settings.register_profile("charkha", max_examples=examples(120), deadline=None, derandomize=not IS_FULL)
settings.load_profile("charkha")
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in the background of a shell; tests interrupt commands
    signal.signal(signal.SIGINT, signal.default_int_handler)


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


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown() -> Generator[None, object, object]:
    """An agent in the process of a test has made it come before other workers: they would starve from then on."""
    try:
        return (yield)
    finally:
        with suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, 0, NICE)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """A coroutine function runs in an event loop of its own, made by its fixture `loop_factory` if it has one."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters}
    with asyncio.Runner(loop_factory=pyfuncitem.funcargs.get("loop_factory")) as runner:
        runner.run(pyfuncitem.obj(**arguments))
    return True


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the modules that read published traces, which are there only where the project is developed."""
    for item in items:
        if isinstance(item, pytest.Function) and _reads_published_traces(item.module):
            item.add_marker(pytest.mark.shared)


@cache
def _reads_published_traces(module: ModuleType) -> bool:
    return any(getattr(one, "__module__", "") == shared_traces.__name__ for one in vars(module).values())


def is_property(item: pytest.Item) -> bool:
    """Whether it is tried with many examples, of hypothesis or of its own."""
    return item.path.is_relative_to(PROPERTIES) or is_hypothesis_test(getattr(item, "obj", None))


@pytest.fixture(autouse=True)
def _no_loaded_algorithms(monkeypatch: pytest.MonkeyPatch) -> None:
    """An algorithm that one test loads from a file is not there in the next one."""
    monkeypatch.setattr("emulator.planner.algorithms._LOADED", {})


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
