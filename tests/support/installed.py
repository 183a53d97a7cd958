"""Distributions that are installed for the length of one test."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from emulator.planner.algorithms import ENTRY_POINT_GROUP, installed_algorithms


def install(
    folder: Path, monkeypatch: pytest.MonkeyPatch, *, modules: Mapping[str, str], points: Mapping[str, str]
) -> None:
    """Put modules (name → text) and a distribution with entry points for collectives (name → target) on the path."""
    for name, text in modules.items():
        (folder / f"{name}.py").write_text(text)
    info = folder / "my_collectives-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-collectives\nVersion: 0.1.0\n")
    lines = [f"[{ENTRY_POINT_GROUP}]", *(f"{name} = {target}" for name, target in points.items())]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    monkeypatch.syspath_prepend(folder)
    installed_algorithms.cache_clear()
