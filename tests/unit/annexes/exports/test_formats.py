"""Exports that are files of their own: CSV, JUnit; and that nothing is overwritten."""

import csv
import io
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import junitparser
import pyarrow.csv
import pyarrow.parquet
import pytest

from emulator.annexes.exports.formats import export, export_to_stream, write_csv
from emulator.errors import HostError, InputError, ResultError
from emulator.plugins import BUILT_IN, PluginKind, load
from emulator.results.run_folder.manifest import ABORTED
from emulator.results.run_folder.reader import Run, read_run
from emulator.results.run_folder.schema import RunTable
from emulator.results.run_folder.writer import RunWriter
from tests.support.runs import collective, columns, manifest, pair, ranks, write_run


@pytest.fixture
def run(tmp_path: Path) -> Run:
    samples = [*collective([0, 10], [1000, 1100]), *pair(0, 500, instance=1)]
    return write_run(tmp_path / "run", samples, iterations={0: ranks((0, 1200), (0, 1300))})


def test_csv_has_the_rows_of_every_table(run: Run, tmp_path: Path) -> None:
    folder, _ = export(run, load(PluginKind.EXPORTS, "csv"), tmp_path / "out")
    for table in run.folder.glob("*.parquet"):
        wanted = pyarrow.parquet.read_table(table)
        got = pyarrow.csv.read_csv(folder / f"{table.stem}.csv")
        assert got.column_names == wanted.column_names
        assert got.num_rows == wanted.num_rows
    samples = pyarrow.csv.read_csv(folder / "samples.csv").to_pylist()
    assert [(one["kind"], one["post_ns"], one["peer"]) for one in samples] == [
        ("all_reduce", 0, None),
        ("all_reduce", 10, None),
        ("send", 0, 1),
        ("recv", 0, 0),
    ]


def test_junit_has_a_case_for_the_run_and_one_per_class(run: Run, tmp_path: Path) -> None:
    export(run, load(PluginKind.EXPORTS, "junit"), tmp_path / "out.xml")
    [suite] = junitparser.JUnitXml.fromfile(str(tmp_path / "out.xml"))
    assert [case.name for case in suite] == [
        "run completes",
        "all_reduce 2 ranks 1000 B ring",
        "send_recv 2 ranks 1000 B ring",
    ]
    assert all(case.is_passed for case in suite)
    facts = {one.name: one.value for one in next(iter(suite)).child(junitparser.Properties)}
    assert float(facts["jct_ns"]) == 1300


def test_junit_calls_a_run_that_did_not_complete_an_error(tmp_path: Path) -> None:
    with RunWriter(tmp_path / "run", manifest()) as writer:
        writer.add(RunTable.SAMPLES, columns(collective([0, 0], [5, 5])))
        writer.close(ABORTED, reason="agent a1 is lost")
    export(read_run(tmp_path / "run"), load(PluginKind.EXPORTS, "junit"), tmp_path / "out.xml")
    [suite] = junitparser.JUnitXml.fromfile(str(tmp_path / "out.xml"))
    assert suite.errors == 1
    assert [one.message for one in next(iter(suite)).result] == ["agent a1 is lost"]


@pytest.mark.parametrize("name", BUILT_IN[PluginKind.EXPORTS])
def test_what_is_there_is_never_overwritten(run: Run, tmp_path: Path, name: str) -> None:
    (tmp_path / "mine").write_text("precious")
    with pytest.raises(InputError, match="it exists"):
        export(run, load(PluginKind.EXPORTS, name), tmp_path / "mine")
    assert (tmp_path / "mine").read_text() == "precious"


@pytest.mark.parametrize("name", BUILT_IN[PluginKind.EXPORTS])
@pytest.mark.parametrize("failure", [HostError("the disk is full"), ResultError("damaged"), KeyboardInterrupt()])
def test_a_failed_export_leaves_nothing(run: Run, tmp_path: Path, name: str, failure: BaseException) -> None:
    chosen = load(PluginKind.EXPORTS, name)

    def begun(run: Run, target: Path) -> Sequence[str]:
        target.mkdir() if chosen.is_folder else target.write_text("the beginning")
        raise failure

    broken = replace(chosen, write=begun)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(type(failure)):
        export(run, broken, tmp_path / "out")
    assert sorted(tmp_path.iterdir()) == before
    with pytest.raises((type(failure), InputError)):
        export_to_stream(run, broken, io.BytesIO())


def rows(folder: Path, name: str) -> list[dict[str, str]]:
    with (folder / f"{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_every_table_has_a_file_with_its_columns(tmp_path: Path) -> None:
    write_csv(write_run(tmp_path / "run", collective([0, 0], [100, 100])), tmp_path / "out")
    assert sorted(path.stem for path in (tmp_path / "out").iterdir()) == sorted(part.value for part in RunTable)
    for part in RunTable:
        header = (tmp_path / "out" / f"{part.value}.csv").read_text().splitlines()[0]
        assert [name.strip('"') for name in header.split(",")] == part.schema.names


def test_labels_are_text_and_unknown_values_are_empty(tmp_path: Path) -> None:
    samples = collective([0, 5], [100, 90], name='a "quoted", name')
    write_csv(write_run(tmp_path / "run", samples, iterations={0: ranks((0, 100), (0, 90))}), tmp_path / "out")
    first, second = rows(tmp_path / "out", "samples")
    assert (first["kind"], first["name"], first["ideal_ns"]) == ("all_reduce", 'a "quoted", name', "")
    assert (second["post_ns"], second["done_ns"]) == ("5", "90")
    assert [row["end_ns"] for row in rows(tmp_path / "out", "iterations")] == ["100", "90"]


def test_a_name_is_no_formula(tmp_path: Path) -> None:
    for number, (name, written) in enumerate(
        [("=1+1", "'=1+1"), ("@x", "'@x"), ("\uff1d1", "'\uff1d1"), ("a=1", "a=1")]
    ):
        write_csv(write_run(tmp_path / f"run{number}", collective([0], [9], name=name)), tmp_path / f"out{number}")
        assert rows(tmp_path / f"out{number}", "samples")[0]["name"] == written
