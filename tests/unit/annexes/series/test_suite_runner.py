from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from emulator.annexes.series import suite_record as record_module
from emulator.annexes.series.record import new_folder
from emulator.annexes.series.suite_document import Case, Search, Suite, read_suite
from emulator.annexes.series.suite_record import (
    CaseRecord,
    Check,
    RunRecord,
    SuiteRecord,
    shortfall,
)
from emulator.annexes.series.suite_runner import SUITES, latest_folder, play_suites
from emulator.annexes.series.suite_search import search_record
from emulator.annexes.series.suite_table import deciding_cell, uncertainty_cell
from emulator.errors import InputError, RunError, RunInterrupted
from emulator.experiment.spec.spec import Experiment
from emulator.results.run_folder.manifest import Trials
from emulator.results.run_folder.session import StoredSession, session_of
from emulator.results.run_folder.writer import RunWriter
from emulator.results.statistics.summary import summarise
from emulator.results.statistics.traffic.network_traffic import NetworkTraffic, PortLoad
from emulator.results.verdict.judge import Outcome
from emulator.results.verdict.rules import Rules
from tests.support.runs import collective, manifest, ranks, write_run
from tests.support.sessions import PlayedJob, write_job, write_jobs

HEAD = """\
charkha_suite: 1
name: three
defaults: {job: {sweep: {collective: all_reduce, ranks: 2, sizes: [1K]}}}
rules: [{metric: jct, at_most: 1 ms}]
cases:
"""
TWO_JOBS = (
    HEAD.replace("at_most: 1 ms", "below: 3 ms").replace("job: {", "job: {iterations: 3, ")
    + """\
  - {name: first}
  - name: both
    spec: {jobs: [{name: a}, {name: b, until: others, sweep: {sizes: [2K]}}]}
    interference: {below: 120 %}
"""
)
THREE = HEAD + "  - {name: a}\n  - {name: b}\n  - {name: c, rules: [{metric: device_drops, at_most: 0}]}\n"
SEARCH = HEAD + "  - {name: a, search: {rate: [100Mbit, 1Gbit], resolution: 10 %, trials: 2}}\n"


def suite(folder: Path, text: str = THREE) -> Suite:
    path = folder / "three.yaml"
    path.write_text(text)
    return read_suite(path)


class Player:
    """Makes up runs: one iteration of `jct_ns`, or an error for the runs of these numbers, from 0."""

    def __init__(self, jct_ns: int = 500, **problems: BaseException) -> None:
        self.played: list[tuple[str, Experiment]] = []
        self.jct_ns = jct_ns
        self._problems = {int(name.strip("_")): error for name, error in problems.items()}

    @property
    def folders(self) -> list[str]:
        return [folder for folder, _ in self.played]

    def jct_of(self, experiment: Experiment) -> int:
        return self.jct_ns

    def __call__(self, experiment: Experiment, folder: Path, *, solo: bool = False) -> StoredSession:
        if len(experiment.jobs) > 1:
            return self._session(experiment, folder, solo)
        number = len(self.played)
        self.played.append((folder.name, experiment))
        if number in self._problems:
            raise self._problems[number]
        spans = {0: ranks((0, self.jct_of(experiment)), (0, 400))}
        return session_of(write_run(folder, collective([0, 0], [100, 100]), iterations=spans, run_id=f"run-{number}"))

    def _session(self, experiment: Experiment, folder: Path, solo: bool) -> StoredSession:
        """Job b takes twice the time of its solo run, a the same; both take `jct_ns` and twice of it."""
        number = len(self.played)
        self.played.append((folder.name, experiment))
        if number in self._problems:
            write_job(folder / "job=a", start_ns=0, iterations=[self.jct_ns] * 4, run_id="half")
            raise self._problems[number]
        times = {"a": self.jct_ns, "b": 2 * self.jct_ns}
        jobs = {
            name: PlayedJob(0, [time] * (40 // (time // self.jct_ns)), [self.jct_ns] * 20 if solo else ())
            for name, time in times.items()
        }
        return write_jobs(folder, jobs)


class LossyAbove(Player):
    """A device on which iterations take too long above a rate."""

    limit = 400_000_000

    def jct_of(self, experiment: Experiment) -> int:
        rate = int(str(experiment.network.transport.options["rate_cap_bps"]).removesuffix("bit"))
        return 500 if rate <= self.limit else 2_000_000


def run(one: Suite, root: Path, play: Player, *, resume: bool = False) -> SuiteRecord:
    *_, last = play_suites({"": one}, root, play, resume=resume)
    return last[""]


def outcomes(record: SuiteRecord) -> Sequence[str]:
    return [one.outcome.value for one in record.cases]


def test_every_case_gets_a_run_folder_and_a_verdict_by_its_rules(tmp_path: Path) -> None:
    play, root = Player(), tmp_path / "out"
    record = run(suite(tmp_path), root, play)
    assert play.folders == ["a", "b", "c"]
    assert outcomes(record) == ["PASS", "PASS", "UNDECIDED"]
    assert (record.outcome, record.left) == (Outcome.UNDECIDED, 0)
    assert record.text.startswith("c: device_drops: not measured (at most 0); 1 of 3 cases is UNDECIDED; three")
    assert [(one.metric, one.value) for one in record.cases[:2]] == [("jct", 500), ("jct", 500)]
    assert SuiteRecord.read(root) == record


def test_a_run_keeps_the_rules_of_its_case(tmp_path: Path) -> None:
    play, root = Player(), tmp_path / "out"
    run(suite(tmp_path), root, play)
    expected = [experiment.observe.expect for _, experiment in play.played]
    assert expected == [str(root / f"{name}.rules.yaml") for name in "abc"]
    assert "device_drops" in (root / "c.rules.yaml").read_text()


def test_the_result_is_on_disk_after_every_case(tmp_path: Path) -> None:
    root, seen = tmp_path / "out", []
    for records in play_suites({"": suite(tmp_path)}, root, Player()):
        assert SuiteRecord.read(root) == records[""]
        seen.append(len(records[""].cases))
    assert seen == [0, 1, 2, 3]


def test_a_case_that_misses_its_bound_fails_the_suite(tmp_path: Path) -> None:
    record = run(suite(tmp_path), tmp_path / "out", Player(2_000_000))
    assert (outcomes(record), record.outcome.exit_code) == (["FAIL", "FAIL", "UNDECIDED"], 5)
    assert record.text.startswith("a: jct is 2 ms (at most 1 ms); 2 of 3 cases are FAIL")


def test_a_run_that_fails_leaves_its_case_undecided_and_the_next_is_played(tmp_path: Path) -> None:
    play = Player(_0=RunError("agent a0 is lost"))
    record = run(suite(tmp_path), tmp_path / "out", play)
    assert play.folders == ["a", "b", "c"]
    assert outcomes(record)[:2] == ["UNDECIDED", "PASS"]
    assert record.cases[0].text == "the run failed: agent a0 is lost"
    assert record.cases[0].runs[0].run_id is None


def test_what_an_aborted_run_measured_is_judged(tmp_path: Path) -> None:
    class Aborting(Player):
        def __call__(self, experiment: Experiment, folder: Path, *, solo: bool = False) -> StoredSession:
            with RunWriter(folder, manifest(run_id="half")) as writer:
                writer.add_iteration(0, ranks((0, 2_000_000), (0, 5)))
                raise RunError("no answer")

    record = run(suite(tmp_path, THREE.replace("  - {name: b}\n", "")), tmp_path / "out", Aborting())
    assert outcomes(record) == ["FAIL", "UNDECIDED"]
    assert record.cases[0].text == "jct is 2 ms (at most 1 ms); the run failed: no answer"


@pytest.mark.parametrize("error", [RunInterrupted, KeyboardInterrupt])
def test_a_suite_that_was_interrupted_is_resumed_and_plays_no_complete_case_again(
    error: type[BaseException], tmp_path: Path
) -> None:
    one, root, first, second = suite(tmp_path), tmp_path / "out", Player(_1=error()), Player()
    with pytest.raises(error):
        run(one, root, first)
    before = SuiteRecord.read(root)
    assert (outcomes(before), before.outcome) == (["PASS"], Outcome.UNDECIDED)
    assert before.text.startswith("2 of 3 cases not played")
    record = run(one, root, second, resume=True)
    assert (first.folders, second.folders) == (["a", "b"], ["b", "c"])
    assert record.cases[0].runs == before.cases[0].runs
    assert record.started == before.started


def test_a_folder_without_a_suite_is_not_resumed(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no suite to resume"):
        run(suite(tmp_path), tmp_path / "out", Player(), resume=True)
    assert not (tmp_path / "out").exists()


def test_another_suite_or_another_version_of_it_is_not_resumed(tmp_path: Path) -> None:
    root = tmp_path / "out"
    run(suite(tmp_path), root, Player())
    with pytest.raises(InputError, match="another version of the suite or topology"):
        run(suite(tmp_path, THREE.replace("1 ms", "2 ms")), root, Player(), resume=True)
    with pytest.raises(InputError, match="holds suite three"):
        run(
            suite(tmp_path, THREE.replace("name: three", "name: four").replace("1 ms", "2 ms")),
            root,
            Player(),
            resume=True,
        )


def test_a_changed_topology_is_not_resumed(tmp_path: Path) -> None:
    (tmp_path / "net.yaml").write_text("first")
    text = THREE.replace("defaults: {", "defaults: {network: {topology: net.yaml}, ")
    run(suite(tmp_path, text), tmp_path / "out", Player())
    run(suite(tmp_path, text), tmp_path / "out", Player(), resume=True)
    (tmp_path / "net.yaml").write_text("second")
    with pytest.raises(InputError, match="another version of the suite or topology"):
        run(suite(tmp_path, text), tmp_path / "out", Player(), resume=True)


def test_two_suites_do_not_play_into_one_folder(tmp_path: Path) -> None:
    one, root = suite(tmp_path), tmp_path / "out"
    playing = play_suites({"": one}, root, Player())
    next(playing)
    with pytest.raises(InputError, match="another command is playing into it"):
        run(one, root, Player(), resume=True)
    playing.close()
    assert run(one, root, Player(), resume=True).left == 0


def test_a_search_finds_the_highest_rate_that_passes(tmp_path: Path) -> None:
    play, root = LossyAbove(), tmp_path / "out"
    (case,) = run(suite(tmp_path, SEARCH), root, play).cases
    loads = [name for name in play.folders if name.endswith("-1")]
    assert loads == ["1000000000-1", "100000000-1", "550000000-1", "325000000-1", "437500000-1", "381250000-1"]
    assert (case.outcome, case.metric, case.value, case.unit) == (Outcome.PASS, "highest_rate", 381_250_000, "bit/s")
    assert case.text.startswith(
        "highest rate that passes is 381.2 Mbit/s (at 437.5 Mbit/s: jct is 2 ms (at most 1 ms))"
    )
    assert (root / "a" / "381250000-2").is_dir()
    assert not (root / "a" / "437500000-2").exists()


def test_a_search_is_resumed_where_it_was_interrupted(tmp_path: Path) -> None:
    one, root = suite(tmp_path, SEARCH), tmp_path / "out"
    first, second, whole = LossyAbove(_4=KeyboardInterrupt()), LossyAbove(), LossyAbove()
    with pytest.raises(KeyboardInterrupt):
        run(one, root, first)
    (case,) = run(one, root, second, resume=True).cases
    run(one, tmp_path / "whole", whole)
    assert first.folders[:4] + second.folders == whole.folders
    assert case.value == 381_250_000


def test_a_search_over_sizes_replaces_the_sizes_of_the_sweep(tmp_path: Path) -> None:
    text = SEARCH.replace("rate: [100Mbit, 1Gbit]", "size: [1K, 1M]")
    play = Player()
    (case,) = run(suite(tmp_path, text), tmp_path / "out", play).cases
    assert [experiment.job.sweep.sizes for _, experiment in play.played] == [(1 << 20,), (1 << 20,)]
    assert (case.value, case.unit) == (1 << 20, "By")


def test_folders_are_named_after_time_and_suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert new_folder(SUITES, "smoke").parent == Path("suites")
    with pytest.raises(InputError, match="has no folder of suite three"):
        latest_folder("three")
    for name in ("20260101-000000-three", "20260102-000000-three"):
        run(suite(tmp_path), Path("suites") / name, Player())
    (Path("suites") / "20260103-000000-three").mkdir()
    assert latest_folder("three").name == "20260102-000000-three"
    assert (latest_folder("three") / SuiteRecord.FILE).is_file()


def test_a_share_is_that_of_the_rate_of_the_slowest_port(tmp_path: Path) -> None:
    text = SEARCH.replace("100Mbit, 1Gbit", "10 %, 100 %").replace("trials: 2", "trials: 1")
    text = text.replace("defaults: {", "defaults: {network: {topology: two-hosts-switch}, ")
    play = LossyAbove()
    play.limit = 960_000_000
    (case,) = run(suite(tmp_path, text), tmp_path / "out", play).cases
    assert play.folders == ["10000-1", "1000-1", "5500-1", "7750-1", "8875-1", "9437-1"]
    rates = [experiment.network.transport.options["rate_cap_bps"] for _, experiment in play.played]
    assert rates[:3] == ["1000000000bit", "100000000bit", "550000000bit"]
    assert case.text.startswith("highest share of the port's rate that passes is 94.37 % (at 100 %: jct is 2 ms")
    assert deciding_cell(case) == "94.37 %"


def test_a_share_without_a_rate_is_refused_before_the_first_case(tmp_path: Path) -> None:
    text = HEAD + "  - {name: a}\n  - {name: b, search: {rate: [10 %, 100 %]}}\n"
    play = Player()
    with pytest.raises(InputError, match="case b: searches a share of the ports' rate: it needs a --topology"):
        run(suite(tmp_path, text), tmp_path / "out", play)
    assert not play.played


def test_a_load_that_no_port_carried_has_not_passed(tmp_path: Path) -> None:
    summary = summarise(write_run(tmp_path / "run", collective([0, 0], [100, 100]), iterations={0: ranks((0, 500))}))
    busiest = PortLoad("h0:eth0", "sent", 70e6, 10**9)
    low = replace(summary, totals=replace(summary.totals, network=NetworkTraffic(1.0, 1, 1.0, busiest)))
    assert shortfall(low, 90_000_000) == ""
    assert shortfall(low, 100_000_000) == (
        "the load was not offered: h0:eth0 sent 70 Mbit/s of payload, not 100 Mbit/s"
    )
    assert shortfall(summary, 100_000_000) == ""


def test_a_search_finds_the_highest_rate_that_was_offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_module, "shortfall", lambda summary, rate_bps: "not offered" if rate_bps > 4e8 else "")
    (case,) = run(suite(tmp_path, SEARCH), tmp_path / "out", Player()).cases
    assert (case.outcome, case.value) == (Outcome.PASS, 381_250_000)
    assert case.text == "highest rate that passes is 381.2 Mbit/s (at 437.5 Mbit/s: not offered)"
    assert {one.outcome for one in case.runs if one.load and one.load > 4e8} == {Outcome.UNDECIDED}


def test_a_case_of_several_jobs_is_judged_per_job_and_the_gravest_decides(tmp_path: Path) -> None:
    root, play = tmp_path / "out", Player(1_000_000)
    _, case = run(suite(tmp_path, TWO_JOBS), root, play).cases
    assert [(one.job, one.folder, one.outcome.value) for one in case.runs] == [
        ("a", "both/job=a", "PASS"),
        ("b", "both/job=b", "FAIL"),
    ]
    assert case.outcome is Outcome.FAIL
    assert case.text.startswith("job b: interference is 2")
    found = {run.job: {check.metric: check.value for check in run.checks} for run in case.runs}
    assert found == {"a": {"jct": 1e6, "interference": 1}, "b": {"jct": 2e6, "interference": 2}}
    jobs = play.played[1][1].jobs
    assert [(job.sweep.sizes, job.iterations) for job in jobs] == [((1024,), 3), ((2048,), None)]


def test_a_session_that_was_interrupted_is_played_again_and_a_complete_one_is_not(tmp_path: Path) -> None:
    one, root, second, third = suite(tmp_path, TWO_JOBS), tmp_path / "out", Player(1_000), Player()
    with pytest.raises(KeyboardInterrupt):
        run(one, root, Player(1_000, _1=KeyboardInterrupt()))
    record = run(one, root, second, resume=True)
    assert (second.folders, (root / "both.aborted-1").is_dir()) == (["both"], True)
    assert run(one, root, third, resume=True) == record
    assert third.folders == []


def test_a_session_that_fails_leaves_its_case_undecided_with_every_job(tmp_path: Path) -> None:
    play = Player(1_000, _1=RunError("job b: agent a0 is lost"))
    _, case = run(suite(tmp_path, TWO_JOBS), tmp_path / "out", play).cases
    assert (case.outcome, case.jobs) == (Outcome.UNDECIDED, ("a", "b"))
    assert case.text == "job a: the run failed: job b: agent a0 is lost"


PASS, FAIL, LIMITED = Outcome.PASS, Outcome.FAIL, Outcome.TESTER_LIMITED
CASE = Case("load", "highest load", "26.1", Experiment.of_trace("t"), Rules("r", ()), "")


def found(at_least: int = 100_000_000, **loads: Outcome) -> CaseRecord:
    """The record of runs at loads such as `m500` (500 Mbit/s)."""
    search = Search("rate", 100_000_000, 1_000_000_000, resolution=0.05, trials=1, at_least=at_least)
    runs = []
    for name, outcome in loads.items():
        check = Check(
            outcome=outcome, text="3 frames lost", metric="frames_lost", about="", unit="1", value=3, bound="≤ 0"
        )
        runs.append(
            RunRecord(folder=name, run_id=name, outcome=outcome, load=int(name[1:]) * 1_000_000, checks=(check,))
        )
    return search_record(CASE, search, runs)


def test_the_highest_load_and_what_the_next_one_shows() -> None:
    one = found(m1000=FAIL, m100=PASS, m550=PASS, m775=FAIL)
    assert (one.outcome, one.metric, one.value, one.unit) == (PASS, "highest_rate", 550_000_000, "bit/s")
    assert one.text == "highest rate that passes is 550 Mbit/s (at 775 Mbit/s: 3 frames lost)"


def test_the_whole_range_passes() -> None:
    one = found(m1000=PASS)
    assert (one.outcome, one.text) == (PASS, "the highest rate of the range, 1 Gbit/s, passes")


def test_nothing_passes() -> None:
    one = found(m1000=FAIL, m100=FAIL)
    assert (one.outcome, one.value) == (FAIL, None)
    assert one.text == "no rate from 100 Mbit/s to 1 Gbit/s passes (at 100 Mbit/s: 3 frames lost)"


@pytest.mark.parametrize(("outcome", "answer"), [(FAIL, FAIL), (LIMITED, LIMITED)])
def test_a_load_below_the_one_required_is_judged_by_what_stopped_it(outcome: Outcome, answer: Outcome) -> None:
    assert found(800_000_000, m1000=outcome, m100=PASS, m550=PASS, m775=outcome).outcome is answer


class Scattering(Player):
    """A device that holds 1 ms up to 400 Mbit/s, not from 480 on, and may or may not in between.

    The iterations of a run scatter by 5 %, so that one run of 0.99 ms does not decide. `times_us` are those of the runs
    in between, over and over.
    """

    def __init__(self, *times_us: int) -> None:
        super().__init__()
        self.times_us = times_us

    def __call__(self, experiment: Experiment, folder: Path, *, solo: bool = False) -> StoredSession:
        self.played.append((folder.name, experiment))
        rate = int(str(experiment.network.transport.options.get("rate_cap_bps", "450000000")).removesuffix("bit"))
        number = int(folder.name.rpartition("-")[2]) - 1
        between = self.times_us[number % len(self.times_us)]
        median_ns = 1_000 * (500 if rate <= 4e8 else 2_000 if rate >= 4.8e8 else between)
        each = [round(median_ns * (1 + 0.05 * at)) for at in (0.1, -0.9, 1, -1, 0.9, -0.1, 0.5, -0.5, 0.8, -0.8)]
        spans = {at: ranks((1, 1 + jct), (1, 1 + jct // 2)) for at, jct in enumerate(each)}
        rows = [row for at in range(10) for row in collective([0, 0], [100, 100], iteration=at)]
        facts = {"calibration": {"timer_ns": 10}, "trials": Trials(attempted=10, warmup=0, included=10)}
        return session_of(write_run(folder, rows, iterations=spans, run_id=f"run-{folder.name}", **facts))


OPEN = HEAD + "  - {name: a, search: {rate: [100Mbit, 1Gbit], resolution: 10 %}}\n"


def test_a_load_that_one_run_leaves_open_is_played_until_the_runs_as_one_decide(tmp_path: Path) -> None:
    play, root = Scattering(990, 989, 991, 990), tmp_path / "out"
    (case,) = run(suite(tmp_path, OPEN), root, play).cases
    at = [name for name in play.folders if name.startswith("437500000")]
    assert at == [f"437500000-{number}" for number in (1, 2, 3, 4)]
    assert case.runs[4].outcome is Outcome.UNDECIDED
    (as_one,) = case.sets
    assert (as_one.load, as_one.runs, as_one.outcome) == (437_500_000, 4, Outcome.PASS)
    assert (case.outcome, case.value) == (Outcome.PASS, 437_500_000)
    budget = as_one.checks[0].uncertainty
    assert budget is not None
    assert (budget.runs, budget.value) == (4, pytest.approx(990_000, rel=1e-2))


def test_a_load_that_stays_undecided_is_neither_passed_nor_failed(tmp_path: Path) -> None:
    one = suite(tmp_path, OPEN.replace("10 %}", "10 %, most_trials: 5, at_least: 430Mbit}"))
    play, root = Scattering(990, 1_030, 970, 1_010), tmp_path / "out"
    (case,) = run(one, root, play).cases
    assert [name for name in play.folders if name.startswith("437500000")][-1] == "437500000-5"
    assert (case.outcome, case.value) == (Outcome.UNDECIDED, 381_250_000)
    assert case.text.startswith("highest rate that passes is 381.2 Mbit/s (at 437.5 Mbit/s undecided: jct is ")
    assert "the bound is within its uncertainty" in case.text
    assert "would decide; over 5 runs; 550 Mbit/s fails)" in case.text
    again = Scattering(1)
    (resumed,) = run(one, root, again, resume=True).cases
    assert (resumed, again.folders) == (case, [])
    search = one.cases[0].search
    assert search is not None
    for at_least, outcome in ((300_000_000, Outcome.PASS), (700_000_000, Outcome.FAIL)):
        other = search_record(one.cases[0], replace(search, at_least=at_least), case.runs, case.sets)
        assert (other.outcome, other.value) == (outcome, 381_250_000)


def test_a_case_that_is_repeated_is_judged_over_its_runs(tmp_path: Path) -> None:
    for name, times_us, outcome in (
        ("good", (989, 990, 991, 990), Outcome.PASS),
        ("open", (980, 1_010, 1_000, 985), Outcome.UNDECIDED),
        ("bad", (1_010, 1_011, 1_009, 1_010), Outcome.FAIL),
    ):
        play = Scattering(*times_us)
        (case,) = run(suite(tmp_path, HEAD + "  - {name: a, repeat: 4}\n"), tmp_path / name, play).cases
        assert play.folders == ["01", "02", "03", "04"]
        assert {one.outcome for one in case.runs} == {Outcome.UNDECIDED}  # each alone
        assert (case.outcome, case.metric, len(case.runs)) == (outcome, "jct", 4)
        assert case.text.endswith("; over 4 runs")
        assert case.checks[0].uncertainty is not None
        assert uncertainty_cell(case).endswith(" µs")
        assert SuiteRecord.read(tmp_path / name).cases == (case,)
    assert "runs would decide" not in case.text


def test_a_repeated_case_with_a_run_that_failed_does_not_pass(tmp_path: Path) -> None:
    play = Player(_1=RunError("an agent is lost"))
    (case,) = run(suite(tmp_path, HEAD + "  - {name: a, repeat: 3}\n"), tmp_path / "out", play).cases
    assert (case.outcome, len(case.runs)) == (Outcome.UNDECIDED, 3)
    assert case.text.endswith("over 2 runs; 1 of 3 runs failed: an agent is lost")


def test_only_one_job_without_a_search_is_repeated(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is for one job without a search"):
        suite(tmp_path, HEAD + "  - {name: a, repeat: 3, search: {rate: [1Mbit, 2Mbit]}}\n")
