"""A stored run that is damaged is refused at its load, with file, key or column."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from emulator.errors import ResultError
from emulator.results.run_folder.manifest import LAST_DONE
from emulator.results.run_folder.reader import read_run
from emulator.results.run_folder.schema import RunTable
from emulator.results.run_folder.stored import MIGRATIONS, migrated
from tests.support.runs import edited

GOLDEN = Path(__file__).parents[3] / "data" / "run-0.1.0"


def changed(tmp_path: Path, path: tuple[str | int, ...], value: Any) -> Path:
    """A copy of a run with another value in its manifest."""
    folder = tmp_path / "run"
    shutil.copytree(GOLDEN, folder)
    document = json.loads((folder / "manifest.json").read_text())
    place = document
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    (folder / "manifest.json").write_text(json.dumps(document))
    return folder


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        (("topology", "hosts"), 5, r"topology\.hosts: expected a list, got int"),
        (("topology", "network"), 5, r"topology\.network: expected a mapping, got int"),
        (("topology", "host_index", 0), "x", r"topology\.host_index\[0\]: expected int, got text"),
        (("topology", "host_index", 0), -(1 << 63), r"topology\.host_index\[0\]: expected int >= 0"),
        (("topology", "host_index", 3), 2, r"topology: host_index\[3\] is 2, but there are 2 hosts"),
        (("topology", "interface_index", 1), 1, r"interface_index\[1\] is 1, but its host has 1 interfaces"),
        (("topology", "interface_index"), [0], "has 4 host_index and 1 interface_index"),
        (("topology", "hosts", 0, "name"), {"a": 1}, r"topology\.hosts\[0\]\.name: expected text, got a mapping"),
        (("topology", "addresses", 0), "x", "'x' does not appear to be an IPv4 or IPv6 address"),
        (("dut", "nodes"), {"a": 1}, r"dut\.nodes: expected a list, got a mapping"),
        (("created",), "2026-02-30T00:00:00", "day is out of range for month"),
        (("calibration",), {"created": "yesterday"}, "invalid isoformat string: 'yesterday'"),
        (("calibration",), {"closure": [{"name": "rate", "inside": True}]}, "has closure tests, but no date"),
        (("calibration",), {"created": "2026-02-03", "closure": [{}]}, r"closure\[0\]"),
        (("seed",), 1 << 64, "a number has more than 64 bits"),
        (("seed",), float("nan"), "NaN is not a finite number"),
    ],
)
def test_a_manifest_is_checked_as_a_whole(
    tmp_path: Path, path: tuple[str | int, ...], value: Any, problem: str
) -> None:
    with pytest.raises(ResultError, match=problem) as caught:
        read_run(changed(tmp_path, path, value))
    assert str(tmp_path / "run" / "manifest.json") in str(caught.value)


def test_bytes_that_are_no_text_are_named_with_their_line(tmp_path: Path) -> None:
    folder = changed(tmp_path, ("seed",), 1)
    (folder / "manifest.json").write_bytes(b'{"format_version": 1,\n"run_id": "\xff"}')
    with pytest.raises(ResultError, match=r"manifest\.json: .*is not UTF-8 text \(line 2\)"):
        read_run(folder)


def with_column(tmp_path: Path, name: str, first: Any) -> Path:
    """A copy of a run with another value in the first row of a column of its samples."""
    folder = tmp_path / "run"
    shutil.copytree(GOLDEN, folder)
    table = pq.read_table(folder / "samples.parquet")
    at = table.schema.get_field_index(name)
    values = pa.array([first, *table.column(at).to_pylist()[1:]], table.schema.field(at).type)
    pq.write_table(table.set_column(at, table.schema.field(at), values), folder / "samples.parquet")
    return folder


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("rank", 119, "column rank has 119, which is not from 0 to 3"),
        ("rank", -2, "column rank has -2, which is not from 0 to 3"),
        ("peer", 4, "column peer has 4, which is not from 0 to 3"),
        ("post_ns", -(1 << 63), "column post_ns has -9223372036854775808, which is not from"),
        ("size_bytes", -1, "column size_bytes has -1, which is not from 0"),
        ("kind", "xll_reduce", "column kind has 'xll_reduce', which is none of all_gather, "),
    ],
)
def test_numbers_and_words_of_a_table_are_checked(tmp_path: Path, name: str, value: Any, problem: str) -> None:
    run = read_run(with_column(tmp_path, name, value))
    with pytest.raises(ResultError, match=problem) as caught:
        run.table(RunTable.SAMPLES)
    assert str(tmp_path / "run" / "samples.parquet") in str(caught.value)


def test_one_changed_byte_of_a_text_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(GOLDEN, folder)
    path = folder / "samples.parquet"
    pq.write_table(pq.read_table(path), path, compression="none")
    path.write_bytes(path.read_bytes().replace(b"all_reduce", b"all\xffreduce"))
    with pytest.raises(ResultError, match=r"samples\.parquet: .*(UTF8|utf-8|damaged)"):
        read_run(folder).table(RunTable.SAMPLES)


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

    monkeypatch.setitem(MIGRATIONS, 0, rename_seed)  # type: ignore[arg-type]
    folder = edited(tmp_path, format_version=0, random_seed=42)
    assert read_run(folder).manifest.seed == 42


def test_times_of_version_1_last_until_the_last_done(tmp_path: Path) -> None:
    assert read_run(edited(tmp_path, format_version=1)).manifest.cct_until == LAST_DONE


def test_every_step_between_two_versions_is_applied_in_order() -> None:
    def step(number: int) -> Callable[[dict[str, Any]], dict[str, Any]]:
        return lambda document: document | {"format_version": number + 1, "steps": [*document["steps"], number]}

    steps = {number: step(number) for number in (1, 2, 3)}
    found = migrated({"format_version": 1, "steps": []}, path=Path("m.json"), newest=4, migrations=steps)
    assert found == {"format_version": 4, "steps": [1, 2, 3]}


def test_a_gap_between_versions_is_an_error() -> None:
    with pytest.raises(ResultError, match=r"m.json: has format version 1, which never existed"):
        migrated({"format_version": 1}, path=Path("m.json"), newest=3, migrations={1: lambda document: document})


def test_the_newest_version_is_not_touched() -> None:
    document = {"format_version": 1, "anything": [1]}
    assert migrated(document, path=Path("m.json"), newest=1) is document


@pytest.mark.parametrize("version", [None, "1", 1.0, True])
def test_a_document_without_a_version_is_not_a_manifest(version: object) -> None:
    with pytest.raises(ResultError, match=r"is not the manifest of a run \(no format_version\)"):
        migrated({"format_version": version}, path=Path("m.json"), newest=1)
