"""`charkha compare` as a user meets it, in this process."""

import json
from pathlib import Path
from typing import Any

import pytest
from junitparser import Failure, JUnitXml, Skipped

import charkha
from emulator.cli.main import main
from emulator.control.parameter import Parameter
from tests.support.repeated import SIZES, write_runs

CLASSES = len(SIZES) + 1  # and the iteration


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Groups of six runs made in turns: a and same are one firmware, slow and fast are 10 % off."""
    root = tmp_path_factory.mktemp("store")
    for turn, (name, slower) in enumerate({"a": 1.0, "same": 1.0, "slow": 1.1, "fast": 0.9}.items()):
        write_runs(root / name, runs=6, seed=turn, slower=slower, turn=turn, dut={"firmware": f"fw-{name}"})
    return root


def compared(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> dict[str, Any]:
    assert main(["compare", *map(str, arguments), "--json"]) == code
    return json.loads(capsys.readouterr().out)


def verdicts(found: dict[str, Any]) -> set[str]:
    return {one["verdict"] for pair in found["pairs"] for one in pair["classes"]}


def shown(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> str:
    assert main(["compare", *map(str, arguments)]) == code
    return capsys.readouterr().out


def refused(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 2) -> str:
    assert main(["compare", *map(str, arguments)]) == code
    streams = capsys.readouterr()
    assert streams.out == ""
    assert streams.err.count("\n") == 1
    return streams.err


def test_the_same_firmware_twice_shows_no_difference(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = compared(capsys, store / "a", store / "same", "--gate=strict")
    (pair,) = found["pairs"]
    assert len(pair["classes"]) == CLASSES
    for one in pair["classes"]:
        assert max(one["baseline"]["variation"], one["other"]["variation"]) <= 0.01
        assert one["verdict"] == "no difference shown"
        assert 1 / 1.03 < one["ratio_low"] <= one["ratio"] <= one["ratio_high"] < 1.03
    assert found["passes_gate"]
    assert not any("one after the other" in note for note in found["notes"])


def test_a_tenth_slower_is_found_in_every_class_and_closes_the_gate(
    store: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "compare.xml"
    found = compared(capsys, store / "a", store / "slow", "--gate", "--junit", path, code=4)
    assert verdicts(found) == {"slower"}
    for one in found["pairs"][0]["classes"]:
        assert one["ratio_low"] < 1.1 < one["ratio_high"]
        assert one["holm_p"] < 0.05
        assert one["p"] == pytest.approx(2 / 924)
    (suite,) = JUnitXml.fromfile(str(path))
    assert (suite.name, suite.tests, suite.failures) == ("slow against a", CLASSES, CLASSES)
    cases = list(suite)
    assert cases[0].name == "iteration (JCT)"
    assert {case.name for case in cases[1:]} == {
        "all_reduce, 2 ranks, 1000 B, ring",
        "all_reduce, 2 ranks, 62.50 KiB, ring",
        "all_reduce, 2 ranks, 976.56 KiB, ring",
    }
    assert all(isinstance(case.result[0], Failure) and "ratio 1.1" in case.result[0].message for case in cases)


def test_two_runs_a_side_are_inconclusive_and_say_how_many_are_needed(
    store: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    few = [f"{store}/{name}/0[12]" for name in ("a", "slow")]
    found = compared(capsys, *few, "--gate", code=7)
    assert compared(capsys, *few, "--gate=lenient") == found
    assert verdicts(found) == {"inconclusive"}
    assert {one["needs_runs"] for one in found["pairs"][0]["classes"]} == {5}
    path = tmp_path / "compare.xml"
    out = shown(capsys, *few, "--gate=strict", "--junit", path, code=7)
    assert "inconclusive (n=2, needs ≥ 5)" in out
    assert "4 classes: too few runs to decide 4 classes" in out
    assert JUnitXml.fromfile(str(path)).failures == CLASSES
    shown(capsys, *few, "--junit", path)
    (suite,) = JUnitXml.fromfile(str(path))
    assert all(isinstance(case.result[0], Skipped) for case in suite)


def test_the_table_fits_the_width_and_says_what_was_compared(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = shown(capsys, store / "a", store / "slow")
    assert max(len(line) for line in out.splitlines()) <= 120
    assert "slow against a: 6 runs against 6 runs" in out
    assert "firmware fw-slow" in out
    assert "4 slower" in out


def test_a_wide_margin_makes_a_tenth_nothing(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert verdicts(compared(capsys, store / "a", store / "slow", "--margin", "20%")) == {"no difference shown"}


def test_a_percentile_that_no_run_carries_is_inconclusive(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = shown(capsys, store / "a", store / "slow", "--on", "p99")
    assert "4 classes: a run needs 100 measurements for this percentile" in out
    assert "4 inconclusive" in out
    assert verdicts(compared(capsys, store / "a", store / "slow", "--on", "p90")) == {"slower"}


def test_what_is_not_comparable_is_named_and_refused(
    store: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    write_runs(tmp_path / "other", runs=6, seed=9, turn=1, parameters={"transport": Parameter("roce")})
    error = refused(capsys, store / "a", tmp_path / "other")
    assert "transport: none in a; roce in other" in error
    assert "--force" in error
    forced = compared(capsys, store / "a", tmp_path / "other", "--force")
    assert forced["forced"]
    assert [one["what"] for one in forced["differences"]] == ["transport"]
    assert "FORCED: these runs are not comparable" in shown(capsys, store / "a", tmp_path / "other", "--force")


def test_another_algorithm_is_another_class(store: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    write_runs(tmp_path / "other", runs=6, seed=9, turn=1, algorithm="direct")
    assert "class all_reduce, 2 ranks, 1000 B, ring: measured in a; not measured in other" in refused(
        capsys, store / "a", tmp_path / "other"
    )


def test_a_trend_has_a_column_per_version(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = shown(capsys, store, "--trend")
    (jct,) = (line for line in out.splitlines() if line.startswith("iteration"))
    ratios = [word for word in jct.split() if word.startswith(("0.", "1."))]
    assert [float(ratio) for ratio in ratios] == pytest.approx([1.0, 1.1, 0.9], abs=0.02)
    assert [word for word in jct.split() if word in ("=", "?", "slower", "faster")] == ["=", "slower", "faster"]
    assert "fw-same" in out
    assert "a comparison needs two groups" in refused(capsys, store / "a", "--trend")


@pytest.mark.parametrize("option", ["--html", "--junit"])
def test_a_place_for_a_file_is_looked_at_first(
    option: str, store: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    groups, mine = (store / "a", store / "same"), tmp_path / "mine.txt"
    mine.write_text("precious")
    wrong = f"{option} /nowhere/file: cannot be written: folder /nowhere does not exist"
    assert wrong in refused(capsys, *groups, option, "/nowhere/file")
    assert "Charkha did not write it" in refused(capsys, *groups, option, mine)
    assert mine.read_text() == "precious"
    for _ in range(2):  # its own file it replaces
        shown(capsys, *groups, option, tmp_path / "file")


def test_markdown_has_the_verdict_first_and_a_row_per_class(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(capsys, store / "a", store / "slow", "--markdown").splitlines()
    assert lines[0] == "### SLOWER"
    header, rule, *rows = [line for line in lines if line.startswith("|")]
    assert [cell.strip() for cell in header.split("|")[1:4]] == ["class", "verdict", "of"]
    assert (rule.count("---:"), len(rows)) == (7, CLASSES)
    assert all("| slower |" in row for row in rows)
    assert shown(capsys, store / "a", store / "same", "--markdown").splitlines()[0] == "### NO DIFFERENCE SHOWN"


def test_the_verdict_is_never_left_out(
    store: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("emulator.views.terminal.console.WIDTH", 80)
    table = shown(capsys, store / "a", store / "slow")
    assert "verdict" in table
    assert table.count("slower") >= CLASSES


def test_python_compares_runs_folders_and_lists_of_them(store: Path) -> None:
    runs = [charkha.load_run(folder) for folder in sorted((store / "slow").iterdir())]
    by_folder = charkha.compare(store / "a", store / "slow")
    by_runs = charkha.compare([store / "a"], runs)
    assert [one.verdict for one in by_runs.pairs[0].classes] == [one.verdict for one in by_folder.pairs[0].classes]
    alone = charkha.compare(charkha.load_run(store / "a" / "01"), runs[0])
    assert [len(group.runs) for group in alone.groups] == [1, 1]
    assert "SLOWER" in repr(by_runs)
    assert (repr(by_runs).count("\n"), repr(runs[0]).count("\n")) == (0, 0)
    assert max(len(repr(by_runs)), len(repr(runs[0]))) < 300
    assert str(by_runs).count("slower") > CLASSES
    with pytest.raises(charkha.InputError, match="a group to compare has no run"):
        charkha.compare([], runs)


def test_a_notebook_has_the_table_and_the_pictures_of_the_report(store: Path) -> None:
    found = charkha.compare(store / "a", store / "slow")
    table = found.table().to_pylist()
    assert {row["verdict"] for row in table} == {"slower"}
    assert found._repr_html_().count("<tr>") == len(table) + 1 == CLASSES + 1
    assert "Ratio of times" in repr(found.plot())
    run = charkha.load_run(store / "a" / "01")
    assert {row["size_bytes"] for row in run.table().to_pylist()} == set(SIZES)
    assert run._repr_html_().count("<tr>") == len(SIZES) + 1
    assert run.plot("jct").html.count('data-chart="') == 1
    with pytest.raises(charkha.InputError, match="choose from cct-distribution, "):
        run.plot("jtc")


def test_commands_are_functions(store: Path, tmp_path: Path) -> None:
    trace = charkha.generate("collective", "all_reduce", n=2, b="1M", out=tmp_path / "trace")
    checked = charkha.check(trace)
    assert "2 all_reduce" in str(checked)
    assert checked.facts["ranks"] == 2
    judged = charkha.judge(charkha.load_run(store / "a" / "01"))
    assert judged.code == 7
    assert judged.facts["outcome"] == "UNDECIDED"
    with pytest.raises(charkha.InputError, match="unknown option '--ranksx'"):
        charkha.check(trace, ranksx=2)
    assert charkha.convert(trace, tmp_path / "copy").is_dir()
    assert "Time line" in charkha.view(trace, out=tmp_path / "page.html").html
