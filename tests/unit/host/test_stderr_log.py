"""What is logged, and how it looks."""

import asyncio
import logging

import pytest

from emulator.host.stderr_log import is_news, last_words, log_to_stderr

POLLER = "Exception in callback PollerCompletionQueue._handle_events(<_UnixSelecto...e debug=False>)()"


@pytest.mark.parametrize(
    ("name", "said", "problem", "is_shown"),
    [
        ("grpc._cython.cygrpc", "a call ended", asyncio.CancelledError(), False),
        ("grpc._cython.cygrpc", "a call ended", ValueError(), True),
        ("emulator.annexes.telemetry.live_page", "a call ended", asyncio.CancelledError(), True),
        ("asyncio", POLLER, BlockingIOError(11, "Resource temporarily unavailable"), False),
        ("asyncio", POLLER, RuntimeError("Event loop is closed"), False),
        ("asyncio", POLLER, ValueError(), True),
        ("asyncio", "Exception in callback Passes._pass()", BlockingIOError(), True),
    ],
)
def test_what_is_the_affair_of_grpc_is_not_logged(
    name: str, said: str, problem: BaseException, *, is_shown: bool
) -> None:
    about = (type(problem), problem, None)
    record = logging.LogRecord(name, logging.ERROR, __file__, 1, said, (), about)
    assert is_news(record) is is_shown


def test_the_last_words_of_an_interpreter_that_cannot_start_are_its_error() -> None:
    error = "OSError: [Errno 24] Too many open files: 'traceback.py'"
    where = "Current thread 0x00007f (most recent call first):\n  <no Python frame>\n"
    assert last_words(f"Fatal Python error: init_import_site\n{error}\n\n{where}") == f": {error}"
    assert last_words("a\nb\x1b[2J\n") == ": b\\x1b[2J"
    assert last_words("\n") == ""


def test_a_record_is_one_visible_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    monkeypatch.setattr(root, "level", root.level)
    log_to_stderr("info")
    logging.getLogger("a").info("rank %s joined", "\x1b[2J\n0")
    logging.getLogger("a").debug("not shown")
    assert capsys.readouterr().err == "INFO a: rank \\x1b[2J\\n0 joined\n"
