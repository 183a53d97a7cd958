"""The JavaScript that draws pictures in the browser: Vega-Lite and Vega, packed for embedding in a page.

`lab/scripts/generate_vega.py` makes the file; `vega/licences.txt` has the licences of what it contains.
"""

from __future__ import annotations

import base64
import zlib
from functools import cache
from importlib import resources


def packed(text: str, *, level: int = 6) -> str:
    """Compress with zlib and encode in base64; page.js unpacks it."""
    return base64.b64encode(zlib.compress(text.encode(), level)).decode()


VEGA_LITE = "6.4"


@cache
def packed_library() -> str:
    """The JavaScript, compressed with zlib and encoded in base64; a page unpacks it."""
    file = resources.files("emulator.views.html.page") / "vega" / f"vega-lite-{VEGA_LITE}.js.zlib.b64"
    return file.read_text(encoding="ascii")
