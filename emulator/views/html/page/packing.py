"""Text that a page unpacks before use: compressed, in an encoding without special characters."""

from __future__ import annotations

import base64
import zlib


def packed(text: str, *, level: int = 6) -> str:
    """Compress with zlib and encode in base64; page.js unpacks it."""
    return base64.b64encode(zlib.compress(text.encode(), level)).decode()


def unpacked(text: str) -> str:
    """The text that was packed."""
    return zlib.decompress(base64.b64decode(text)).decode()
