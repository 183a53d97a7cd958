"""Runs of one job as one: what `runs judge`, `report` and campaigns make of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from emulator import exit_codes
from emulator.annexes.series.run_set import campaign_sets, read_set
from emulator.cli.main import main
from emulator.errors import InputError
from emulator.experiment.series import CampaignProgress, in_turns, play_campaign
from emulator.experiment.spec.document import with_absolute_paths
from emulator.experiment.spec.spec import Experiment, Job, Sweep
from emulator.results.run_folder.manifest import Trials
from emulator.results.run_folder.reader import read_run
from emulator.results.run_folder.session import StoredSession, session_of
from emulator.results.run_folder.writer import RunWriter
from emulator.results.verdict.judge import Outcome
from tests.support.runs import collective, manifest, ranks, write_run

MEDIANS_US = (989, 990, 991, 990)
RULES = "charkha_rules: 1\nname: mine\nrules: [{metric: jct, at_most: %s us}]\n"


def made(folder: Path, number: int, **facts: object) -> None:
    """A run of 8 iterations, which scatter by 5 % around the median of its number."""
    each = [round(1_000 * MEDIANS_US[number] * (1 + 0.05 * at)) for at in (0, -0.9, 1, -1, 0.9, 0.5, -0.5, 0.0)]
    spans = {at: ranks((1, 1 + jct), (1, 1 + jct // 2)) for at, jct in enumerate(each)}
    rows = [row for at in range(8) for row in collective([0, 0], [100, 100], iteration=at)]
    known = {
        "run_id": f"run-{number}",
        "created": f"2026-01-02T0{number}:00:00+00:00",
        "calibration": {"timer_ns": 10},
        "trials": Trials(attempted=8, warmup=0, included=8),
    }
    write_run(folder, rows, iterations=spans, **known | facts)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("sets") / "base"
    for number in range(4):
        made(root / f"0{number + 1}", number)
    with pytest.raises(KeyboardInterrupt), RunWriter(root / "05", manifest(run_id="cut")):
        raise KeyboardInterrupt
    return root


def ruled(folder: Path, limit_us: float) -> str:
    path = folder / "rules.yaml"
    path.write_text(RULES % limit_us)
    return str(path)


@pytest.mark.parametrize(
    ("limit_us", "code"),
    [(1000, exit_codes.DONE), (990.5, exit_codes.UNDECIDED), (980, exit_codes.EXPECTATION_FAILED)],
)
def test_a_folder_of_runs_is_judged_as_one(
    base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], limit_us: float, code: int
) -> None:
    assert main(["runs", "judge", str(base), ruled(tmp_path, limit_us)]) == code
    shown = capsys.readouterr()
    assert "over 4 runs; mine" in " ".join(shown.out.split())
    assert "05 does not count" in shown.err
    assert ("runs would decide" in " ".join(shown.out.split())) is (code == exit_codes.UNDECIDED)
    assert main(["runs", "judge", str(base / "01"), ruled(tmp_path, limit_us)]) == exit_codes.UNDECIDED
    assert "iterations would decide" in " ".join(capsys.readouterr().out.split())


def test_json_and_explain_have_the_budget_over_the_runs(
    base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pattern, rules = f"{base}/0[1-4]", ruled(tmp_path, 1000)
    assert main(["runs", "judge", pattern, rules, "--json"]) == exit_codes.DONE
    found = json.loads(capsys.readouterr().out)
    assert [Path(one).name for one in found["runs"]] == ["01", "02", "03", "04"]
    jct = found["uncertainty"][0]
    assert (jct["of"], jct["figure"], jct["unit"], jct["runs"], jct["k"]) == ("iteration (JCT)", "jct", "ns", 4, 2)
    assert [one["name"] for one in jct["components"]] == ["repeat", "clock", "stamp"]
    assert found["checks"][0]["uncertainty"] == pytest.approx(jct["expanded"])
    assert main(["runs", "judge", pattern, rules, "--explain"]) == exit_codes.DONE
    assert "repeat: 4 runs, Student's t" in capsys.readouterr().out
    main(["runs", "judge", str(base / "01"), rules, "--explain"])
    assert "8 iterations and how much neighbours are alike" in capsys.readouterr().out


def test_the_report_of_a_folder_of_runs_has_verdict_budget_and_runs(
    base: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["report", str(base), "--out", str(tmp_path / "page.html")]) == exit_codes.DONE
    page = (tmp_path / "page.html").read_text()
    for text in ("4 runs of the same job", "Figures over the runs", "4 runs, Student", "05 does not count"):
        assert text in page
    capsys.readouterr()
    assert main(["report", str(base), "--json"]) == exit_codes.DONE
    assert len(json.loads(capsys.readouterr().out)["runs"]) == 4


def test_runs_of_other_jobs_are_not_judged_as_one(tmp_path: Path) -> None:
    made(tmp_path / "set" / "one", 0)
    made(tmp_path / "set" / "two", 1, dut={"firmware": "2.1"})
    with pytest.raises(InputError, match="do not repeat each other: device under test within group set"):
        read_set(str(tmp_path / "set"))
    made(tmp_path / "other" / "one", 0)
    made(tmp_path / "other" / "two", 1, versions={"charkha": "0.0"})
    with pytest.raises(InputError, match=r"Charkha's version: .* in one; 0\.0 in two"):
        read_set(str(tmp_path / "other"))


def test_a_campaign_is_judged_over_the_runs_of_each_group(tmp_path: Path) -> None:
    one = Experiment(jobs=(Job(sweep=Sweep(collective="all_reduce", ranks=2, sizes=("1K",))),))

    def play(experiment: Experiment, folder: Path, *, solo: bool = False) -> StoredSession:
        made(folder, int(folder.name) - 1, run_id=str(folder), spec=with_absolute_paths(experiment).to_plain())
        (folder / "rules.yaml").write_text(RULES % (1000 if folder.parent.name == "a" else 980))
        return session_of(read_run(folder))

    progress = CampaignProgress(tmp_path / "out", in_turns({"a": one, "b": one}, repeat=4))
    play_campaign(play, progress)
    found = campaign_sets(progress)
    assert [verdict.outcome for _, verdict in found.groups.values()] == [Outcome.PASS, Outcome.FAIL]
    assert found.exit_code == exit_codes.EXPECTATION_FAILED
    assert [str(line).partition(";")[0] for line in found.verdicts()][:2] == [
        "a: PASS: the one check is met",
        "b: FAIL: jct is 990 µs ± 1.35 µs (at most 980 us)",
    ]
    assert [line.partition(" ±")[0] for line in found.lines()] == [
        f"JCT over the runs of {name}: 990 µs" for name in "ab"
    ]
    document = found.to_json()
    assert [one["group"] for one in document["sets"]] == ["a", "b"]
    assert document["sets"][1]["outcome"] == "FAIL"
