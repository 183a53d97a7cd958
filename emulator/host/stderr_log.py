"""The log of a command on stderr."""

from __future__ import annotations

import logging

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
    """False for the exceptions that gRPC logs for the calls of a server that stops."""
    kind = record.exc_info[0] if record.exc_info else None
    return not (record.name.startswith("grpc") and kind is not None and kind.__name__ == "CancelledError")


class _LineFormatter(logging.Formatter):
    """One line per record, whatever names are in it."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        return visible(super().formatMessage(record))
