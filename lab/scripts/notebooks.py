"""The notebooks of docs/notebooks: runs their code cells in this process, and stores what they show.

`python -m lab.scripts.notebooks [NAME …]`, on a quiet machine with Chromium, which draws the pictures.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from charkha.notebook import OfflinePage

NOTEBOOKS = Path(__file__).resolve().parents[2] / "docs" / "notebooks"


def played(notebook: dict[str, Any], drawn: Callable[[OfflinePage], str] | None = None) -> Iterator[dict[str, Any]]:
    """Run the code cells of a notebook one after the other, in the current folder.

    Args:
        notebook: of nbformat 4.
        drawn: makes a PNG file of a picture, in base64; None: pictures are not drawn.

    Yields:
        Each code cell with what it shows now.
    """
    names: dict[str, Any] = {}
    for number, cell in enumerate((one for one in notebook["cells"] if one["cell_type"] == "code"), 1):
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            value = _value("".join(cell["source"]), names)
        outputs = []
        if text := printed.getvalue():
            outputs.append({"output_type": "stream", "name": "stdout", "text": text.splitlines(keepends=True)})
        if value is not None:
            data = {kind: text.splitlines(keepends=True) for kind, text in _shown(value, drawn).items()}
            about = {"execution_count": number, "metadata": {}}
            outputs.append({"output_type": "execute_result", "data": data, **about})
        yield cell | {"execution_count": number, "outputs": outputs}


def _value(source: str, names: dict[str, Any]) -> object:
    """Run a cell: the value of its last line, if that is an expression."""
    tree = ast.parse(source)
    last = tree.body.pop()
    shown = last.value if isinstance(last, ast.Expr) else ast.Constant(None, lineno=1, col_offset=0)
    if not isinstance(last, ast.Expr):
        tree.body.append(last)
    exec(compile(tree, "<cell>", "exec"), names)
    return eval(compile(ast.Expression(shown), "<cell>", "eval"), names)


def _shown(value: object, drawn: Callable[[OfflinePage], str] | None) -> dict[str, str]:
    shown = {"text/plain": repr(value)}
    if isinstance(value, OfflinePage):
        return shown | {"image/png": drawn(value) if drawn else ""}
    html = getattr(value, "_repr_html_", None)
    return shown | ({} if html is None else {"text/html": html()})


def main(names: list[str]) -> None:
    """Record the notebooks of these names, or all."""
    from tests.support.browser import chromium

    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        if names and path.stem not in names:
            continue
        notebook = json.loads(path.read_text(encoding="utf-8"))
        with tempfile.TemporaryDirectory(prefix="charkha-notebook-") as folder, chromium() as browser:
            browser.show(900, 500)

            def drawn(picture: OfflinePage, folder: str = folder, browser: Any = browser) -> str:
                browser.open(picture.save(Path(folder) / "picture.html").resolve().as_uri())
                figure: str = browser.driver.find_element("css selector", "[data-chart]").screenshot_as_base64
                return figure

            with contextlib.chdir(folder):
                cells = iter(list(played(notebook, drawn)))
        notebook["cells"] = [next(cells) if one["cell_type"] == "code" else one for one in notebook["cells"]]
        path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
