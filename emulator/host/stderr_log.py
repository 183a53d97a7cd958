"""What a command says of itself: its log on stderr, and the traceback of a bug in a file that a user can send."""

from __future__ import annotations

import logging
import tempfile
import traceback

from emulator.visible import visible


def log_to_stderr(level: str) -> None:
    """Log to stderr from now on, one line per record.

    Args:
        level: the lowest one that is shown: debug, info, warning, error.
    """
    log = logging.StreamHandler()
    log.setFormatter(_LineFormatter("%(levelname)s %(name)s: %(message)s"))
    log.addFilter(is_news)
    logging.basicConfig(level=level.upper(), handlers=[log])


def is_news(record: logging.LogRecord) -> bool:
    """False for the exceptions that gRPC logs for the calls of a server that stops, and for those of its poller."""
    error = record.exc_info[1] if record.exc_info else None
    is_of_a_call = record.name.startswith("grpc") and type(error).__name__ == "CancelledError"
    return not is_of_a_call and not (record.name == "asyncio" and is_of_grpc_poller(record.getMessage(), error))


def is_of_grpc_poller(message: str, error: BaseException | None) -> bool:
    """Whether an event loop's error is that of gRPC's poller; nothing is lost.

    It serves all loops of a process: somebody else may have read what woke it, or the loop that it wakes is closed.

    Source: grpc/grpc issue 25364.
    """
    is_harmless = isinstance(error, BlockingIOError) or str(error) == "Event loop is closed"
    return is_harmless and "PollerCompletionQueue" in message


class _LineFormatter(logging.Formatter):
    """One line per record, whatever names are in it."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        return visible(super().formatMessage(record))


def last_words(log: str) -> str:
    """Why an agent ended, from what it wrote to stderr: the last line, as the end of a sentence.

    An interpreter that cannot start writes where it was after that.
    """
    said, _, _ = log.partition("\nCurrent thread 0x")
    lines = said.strip().splitlines()
    return f": {visible(lines[-1])}" if lines else ""


def write_traceback(error: BaseException) -> str:
    """Write the traceback of an error to a new temporary file; returns its path."""
    with tempfile.NamedTemporaryFile(
        "w", prefix="charkha-error-", suffix=".txt", encoding="utf-8", errors="backslashreplace", delete=False
    ) as details:
        traceback.print_exception(error, file=details)
    return details.name
