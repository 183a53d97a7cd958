"""What a page unpacks before it uses it: compressed, and written as text that HTML has no opinion on."""

from __future__ import annotations

import base64
import zlib


def packed(text: str, *, level: int = 6) -> str:
    """Text as zlib in base64; page.js unpacks it."""
    return base64.b64encode(zlib.compress(text.encode(), level)).decode()


def unpacked(text: str) -> str:
    """The same text again."""
    return zlib.decompress(base64.b64decode(text)).decode()
