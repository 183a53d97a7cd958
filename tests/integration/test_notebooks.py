"""The code cells of the notebooks run over loopback, and show what was recorded of them, but for figures."""

import json
from pathlib import Path
from typing import Any

import pytest

from lab.scripts.notebooks import NOTEBOOKS, played
from tests.support.full import variant


def kinds(cell: dict[str, Any]) -> list[tuple[str, list[str]]]:
    return [(one["output_type"], sorted(one.get("data", ()))) for one in cell["outputs"]]


@pytest.mark.parametrize("path", [NOTEBOOKS / "run.ipynb", pytest.param(NOTEBOOKS / "compare.ipynb", marks=variant)])
def test_cells_show_what_was_recorded(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    notebook = json.loads(path.read_text(encoding="utf-8"))
    recorded = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert len(recorded) > 3
    for before, now in zip(recorded, played(notebook), strict=True):
        assert kinds(now) == kinds(before), "".join(now["source"])
        for one in before["outputs"]:
            assert "image/png" not in one.get("data", ()) or len("".join(one["data"]["image/png"])) > 1000


def test_there_are_notebooks() -> None:
    assert len(list(NOTEBOOKS.glob("*.ipynb"))) == 2
