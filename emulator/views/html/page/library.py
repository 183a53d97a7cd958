"""The JavaScript that draws charts in the browser: Vega-Lite and Vega, packed for embedding in a page.

Bundling takes more than a second, so the bundle is kept in the cache folder of the user. If that folder is not
writable, it is made anew each time.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from functools import cache
from importlib import metadata
from pathlib import Path

from emulator.views.html.page.packing import packed

VEGA_LITE = "6.4"
_SNIPPET = "window.vegaEmbed = vegaEmbed;"


@cache
def packed_library() -> str:
    """The JavaScript, compressed with zlib and encoded in base64; a page unpacks it."""
    kept = _cache_file()
    with contextlib.suppress(OSError):
        return kept.read_text(encoding="ascii")
    text = packed(_bundle(), level=9)
    with contextlib.suppress(OSError):
        _keep(kept, text)
    return text


def _bundle() -> str:
    import vl_convert  # a JavaScript engine: loaded only if needed

    return vl_convert.javascript_bundle(_SNIPPET, vl_version=VEGA_LITE)


def _cache_file() -> Path:
    folder = os.environ.get("XDG_CACHE_HOME", "")
    base = Path(folder) if Path(folder).is_absolute() else Path("~/.cache").expanduser()
    return base / "charkha" / f"vega-lite-{VEGA_LITE}-{metadata.version('vl-convert-python')}.js.zlib.b64"


def _keep(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix="unfinished-", delete=False) as file:
        file.write(text)
    Path(file.name).replace(path)
