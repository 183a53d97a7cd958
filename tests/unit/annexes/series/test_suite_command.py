from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from emulator.annexes.series.suite_command import (
    history_to_json,
    list_to_json,
    read_history,
    render_histories,
    render_list,
    render_suite,
)
from emulator.annexes.series.suite_document import find_suite, read_suite
from emulator.annexes.series.suite_record import SuiteRecord
from emulator.cli.output import print_tables
from emulator.errors import InputError
from emulator.results.verdict.judge import Outcome
from emulator.shipped import shipped_suites
from tests.unit.annexes.series.test_suite_table import RECORD


def test_every_shipped_suite_is_listed_with_its_cases(capsys: pytest.CaptureFixture[str]) -> None:
    print_tables(render_list())
    shown = capsys.readouterr().out
    assert all(name in shown for name in shipped_suites())
    assert [one["name"] for one in list_to_json()] == list(shipped_suites())
    assert "all-reduce-ring" in next(one["cases"] for one in list_to_json() if one["name"] == "smoke")


def test_a_suite_shows_its_cases_rules_and_what_it_does_not_cover(capsys: pytest.CaptureFixture[str]) -> None:
    print_tables(*render_suite(read_suite(find_suite("collectives"))))
    shown = capsys.readouterr().out
    assert "all-to-all" in shown
    assert "Not covered: sizes above 4 MiB" in shown


def test_history_has_a_column_per_date_oldest_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mended = replace(RECORD.cases[1], outcome=Outcome.PASS, value=0)
    later = replace(RECORD, started="2026-02-03T04:05:06+00:00", cases=(*RECORD.cases[:1], mended))
    for name, record in (("late", later), ("early", RECORD)):
        (tmp_path / name).mkdir()
        record.write(tmp_path / name)
    records = read_history([tmp_path / "late", tmp_path / "early"])
    assert [one["started"][:10] for one in history_to_json(records)] == ["2026-01-02", "2026-02-03"]
    print_tables(*render_histories(records))
    shown = capsys.readouterr().out
    assert shown.index("2026-01-02") < shown.index("2026-02-03")
    assert "FAIL 15" in next(line for line in shown.splitlines() if line.startswith("second"))
    assert "PASS 0" in next(line for line in shown.splitlines() if line.startswith("second"))


def test_every_suite_has_a_history_also_with_a_folder_for_each_profile(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for folder, name in (("one", "a"), ("profiles/fw-a", "b"), ("profiles/fw-b", "b")):
        (tmp_path / folder).mkdir(parents=True)
        replace(RECORD, suite=name).write(tmp_path / folder)
    print_tables(*render_histories(read_history([tmp_path / "one", tmp_path / "profiles"])))
    first, _, second = capsys.readouterr().out.partition("\nb\n")
    assert first.startswith("a\n")
    assert [part.count("2026-01-02") for part in (first, second)] == [1, 2]


@pytest.mark.parametrize(
    ("content", "problem"), [(None, "is not the folder of a suite"), ("{", "not JSON"), ("{}", "is missing")]
)
def test_a_folder_without_a_result_is_refused(content: str | None, problem: str, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / SuiteRecord.FILE).write_text(content)
    with pytest.raises(InputError, match=problem):
        read_history([tmp_path])
