"""Bundles Vega-Lite, Vega and vega-embed for the pages. Needs the `dev` extra, which pins the bundler.

After a change of the versions, update `licences.txt` next to the bundle.

Usage: python -m lab.scripts.generate_vega [FOLDER]
"""

from __future__ import annotations

import sys
from pathlib import Path

import vl_convert

from emulator.views.html.page import document
from emulator.views.html.page.document import packed

_SNIPPET = "window.vegaEmbed = vegaEmbed;"


def generate(folder: Path) -> Path:
    """Write the bundle into a folder."""
    path = folder / f"vega-lite-{document.VEGA_LITE}.js.zlib.b64"
    bundle = vl_convert.javascript_bundle(_SNIPPET, vl_version=document.VEGA_LITE)
    path.write_text(packed(bundle, level=9), encoding="ascii")
    return path


if __name__ == "__main__":
    print(generate(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(document.__file__).parent / "vega"))
