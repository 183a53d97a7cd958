from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from emulator.errors import ResultError
from emulator.results.run_folder.layout import MANIFEST
from emulator.results.run_folder.manifest import LAST_DONE
from emulator.results.run_folder.migration import MIGRATIONS, migrated
from emulator.results.run_folder.reader import read_run
from tests.support.runs import write_run


def edited(tmp_path: Path, **changes: object) -> Path:
    folder = tmp_path / "run"
    write_run(folder, [])
    document = json.loads((folder / MANIFEST).read_text())
    (folder / MANIFEST).write_text(json.dumps(document | changes))
    return folder


def test_a_newer_format_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ResultError, match=r"manifest.json: has format version 3, but this Charkha reads up to 2"):
        read_run(edited(tmp_path, format_version=3))


@pytest.mark.parametrize("version", [0, -1])
def test_a_version_that_never_existed_is_refused(tmp_path: Path, version: int) -> None:
    with pytest.raises(ResultError, match="never existed"):
        read_run(edited(tmp_path, format_version=version))


def test_an_older_format_is_migrated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def rename_seed(document: dict[str, object]) -> dict[str, object]:
        return document | {"seed": document["random_seed"], "format_version": 1}

    monkeypatch.setattr("emulator.results.run_folder.migration.MIGRATIONS", {0: rename_seed, **MIGRATIONS})
    folder = edited(tmp_path, format_version=0, random_seed=42)
    assert read_run(folder).manifest.seed == 42


def test_times_of_version_1_last_until_the_last_done(tmp_path: Path) -> None:
    assert read_run(edited(tmp_path, format_version=1)).manifest.cct_until == LAST_DONE


def test_every_step_between_two_versions_is_applied_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    def step(number: int) -> Callable[[dict[str, Any]], dict[str, Any]]:
        return lambda document: document | {"format_version": number + 1, "steps": [*document["steps"], number]}

    monkeypatch.setattr("emulator.results.run_folder.migration.MIGRATIONS", {n: step(n) for n in (1, 2, 3)})
    found = migrated({"format_version": 1, "steps": []}, path=Path("m.json"), newest=4)
    assert found == {"format_version": 4, "steps": [1, 2, 3]}


def test_a_gap_between_versions_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("emulator.results.run_folder.migration.MIGRATIONS", {1: lambda document: document})
    with pytest.raises(ResultError, match=r"m.json: has format version 1, which never existed"):
        migrated({"format_version": 1}, path=Path("m.json"), newest=3)


def test_the_newest_version_is_not_touched() -> None:
    document = {"format_version": 1, "anything": [1]}
    assert migrated(document, path=Path("m.json"), newest=1) is document


@pytest.mark.parametrize("version", [None, "1", 1.0, True])
def test_a_document_without_a_version_is_not_a_manifest(version: object) -> None:
    with pytest.raises(ResultError, match=r"is not the manifest of a run \(no format_version\)"):
        migrated({"format_version": version}, path=Path("m.json"), newest=1)
