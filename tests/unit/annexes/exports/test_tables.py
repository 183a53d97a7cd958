"""The tables of a run as CSV."""

from __future__ import annotations

import csv
from pathlib import Path

from emulator.annexes.exports.tables import write
from emulator.results.run_folder.schema import RunTable
from tests.support.runs import collective, ranks, write_run


def rows(folder: Path, name: str) -> list[dict[str, str]]:
    with (folder / f"{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_every_table_has_a_file_with_its_columns(tmp_path: Path) -> None:
    write(write_run(tmp_path / "run", collective([0, 0], [100, 100])), tmp_path / "out")
    assert sorted(path.stem for path in (tmp_path / "out").iterdir()) == sorted(part.value for part in RunTable)
    for part in RunTable:
        header = (tmp_path / "out" / f"{part.value}.csv").read_text().splitlines()[0]
        assert [name.strip('"') for name in header.split(",")] == part.schema.names


def test_labels_are_text_and_unknown_values_are_empty(tmp_path: Path) -> None:
    samples = collective([0, 5], [100, 90], name='a "quoted", name')
    write(write_run(tmp_path / "run", samples, iterations={0: ranks((0, 100), (0, 90))}), tmp_path / "out")
    first, second = rows(tmp_path / "out", "samples")
    assert (first["kind"], first["name"], first["ideal_ns"]) == ("all_reduce", 'a "quoted", name', "")
    assert (second["post_ns"], second["done_ns"]) == ("5", "90")
    assert [row["end_ns"] for row in rows(tmp_path / "out", "iterations")] == ["100", "90"]


def test_a_name_is_no_formula(tmp_path: Path) -> None:
    for number, (name, written) in enumerate([("=1+1", "'=1+1"), ("@x", "'@x"), ("a=1", "a=1")]):
        write(write_run(tmp_path / f"run{number}", collective([0], [9], name=name)), tmp_path / f"out{number}")
        assert rows(tmp_path / f"out{number}", "samples")[0]["name"] == written
