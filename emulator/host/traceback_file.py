"""The traceback of a bug, in a file that a user can send."""

from __future__ import annotations

import tempfile
import traceback


def write_traceback(error: BaseException) -> str:
    """Write the traceback of an error to a new temporary file; returns its path."""
    with tempfile.NamedTemporaryFile(
        "w", prefix="charkha-error-", suffix=".txt", encoding="utf-8", errors="backslashreplace", delete=False
    ) as details:
        traceback.print_exception(error, file=details)
    return details.name
