"""What is logged, and how it looks."""

from __future__ import annotations

import asyncio
import logging

import pytest

from emulator.host.stderr_log import is_news, log_to_stderr


@pytest.mark.parametrize(
    ("name", "problem", "is_shown"),
    [
        ("grpc._cython.cygrpc", asyncio.CancelledError(), False),
        ("grpc._cython.cygrpc", ValueError(), True),
        ("emulator.views.html.live", asyncio.CancelledError(), True),
    ],
)
def test_calls_that_end_with_their_server_are_not_logged_as_exceptions(
    name: str, problem: BaseException, *, is_shown: bool
) -> None:
    about = (type(problem), problem, None)
    record = logging.LogRecord(name, logging.ERROR, __file__, 1, "a call ended", (), about)
    assert is_news(record) is is_shown


def test_a_record_is_one_visible_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    monkeypatch.setattr(root, "level", root.level)
    log_to_stderr("info")
    logging.getLogger("a").info("rank %s joined", "\x1b[2J\n0")
    logging.getLogger("a").debug("not shown")
    assert capsys.readouterr().err == "INFO a: rank \\x1b[2J\\n0 joined\n"
