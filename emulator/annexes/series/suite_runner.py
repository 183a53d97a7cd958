"""Plays a suite into a folder: a run folder for every case. A case that is complete is never played twice.

DIR/suite.json           what is played, and the results so far
DIR/CASE/                the run folder of a case
DIR/CASE/job=a/          of a case that is a session: the run folder of job a
DIR/CASE.rules.yaml      its rules
DIR/CASE/01/             of a case that is repeated: the run folder of its first run
DIR/CASE/250000000-1/    of a search: the run folder of the first trial at 250 Mbit/s
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from datetime import datetime
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from emulator.annexes.series.run_set import RunSet
from emulator.annexes.series.suite_document import Case, Search, Suite
from emulator.annexes.series.suite_record import (
    CaseRecord,
    RunRecord,
    SetRecord,
    SuiteRecord,
    case_record,
    new_record,
    repeated_record,
    run_record,
    set_record,
)
from emulator.annexes.series.suite_search import next_load, outcomes_of, search_record
from emulator.annexes.series.suite_table import Records
from emulator.errors import InputError
from emulator.experiment.series import Play, Series, Turn
from emulator.experiment.spec.parts import build_experiment, merge, part_of
from emulator.experiment.spec.spec import Experiment
from emulator.host.files import write_text
from emulator.results.comparison.interference import measure_interference
from emulator.results.comparison.uncertainty import FEWEST_RUNS
from emulator.results.run_folder.places import claimed
from emulator.results.run_folder.reader import read_run
from emulator.results.run_folder.session import StoredSession, found_session, job_folder
from emulator.results.statistics.metric import Metric, MetricKind, Reading, Scope, TesterEffect, Unit
from emulator.results.statistics.summary import RunSummary, summarise
from emulator.results.verdict.judge import Outcome
from emulator.results.verdict.rules import MetricBound, Rule, Selection
from emulator.shipped import TOPOLOGIES
from emulator.topology.load import load_topology

SUITES = Path("suites")
"""Default root of the folders of suites."""
SHARES = 10_000
"""Shares of the rate of a port are counted in hundredths of a percent."""

OnRun = Callable[[str, int, Path], None]
"""Called before a run with its group, the number of its case, from 1, and its folder."""


def latest_folder(name: str) -> Path:
    """The folder below suites/ that was made last for a suite.

    Raises:
        InputError: there is none.
    """
    found = sorted(
        path.parent
        for path in SUITES.glob(f"*-{name}/{SuiteRecord.FILE}")
        if SuiteRecord.read(path.parent).suite == name
    )
    if not found:
        raise InputError(f"{SUITES}: has no folder of suite {name}; give one with --out DIR")
    return found[-1]


def play_suites(
    suites: Mapping[str, Suite],
    root: Path,
    play: Play,
    *,
    resume: bool = False,
    on_run: OnRun = lambda group, number, folder: None,
) -> Generator[Records, None, None]:
    """Play the cases in order, each with every profile before the next; yields the results so far after each.

    The first results are yielded before the first case. A run that fails leaves its case UNDECIDED, unless what it
    measured fails a rule; the next case is played.

    Args:
        suites: group of a profile → the suite with it; "" → the only suite.
        root: each group gets the folder of its suite below it; empty or missing, unless `resume`.
        play: plays the jobs of a turn.
        resume: continue in a folder of these suites: complete runs are kept, others are played again.
        on_run: called before each run.

    Raises:
        EmulatorError: another suite uses a folder, or it holds another suite; bad input, a host that lacks something.
        KeyboardInterrupt, RunInterrupted: the same; what is complete stays.
    """
    folders = {group: root / group for group in suites}
    for folder in folders.values() if resume else ():
        if not (folder / SuiteRecord.FILE).is_file():
            raise InputError(f"{folder}: there is no suite to resume (no {SuiteRecord.FILE})")
    records: dict[str, SuiteRecord] = {}
    with ExitStack() as stack:
        for folder in dict.fromkeys([root, *folders.values()]):
            stack.enter_context(claimed(folder, is_new=not resume))
        playing = {
            group: _play_suite(suite, folders[group], play, partial(on_run, group)) for group, suite in suites.items()
        }
        for _ in range(1 + max(len(suite.cases) for suite in suites.values())):
            for group, results in playing.items():
                records[group] = next(results)
                yield dict(records)


def _play_suite(suite: Suite, root: Path, play: Play, on_run: Callable[[int, Path], None]) -> Iterator[SuiteRecord]:
    series = Series(root, play, lambda _, folder: on_run(len(record.cases) + 1, folder), has_record=True)
    record = _begin(suite, root)
    yield record
    for player in [_CasePlayer(case, series) for case in suite.cases]:
        record = record.with_case(player.play())
        record.write(root)
        yield record


def _begin(suite: Suite, root: Path) -> SuiteRecord:
    """Write the record of a suite without results; of one that is resumed, keep its start.

    Raises:
        InputError: the folder holds another suite.
    """
    record = new_record(suite, digest=_digest(suite), started=datetime.now().astimezone().isoformat(timespec="seconds"))
    if (root / SuiteRecord.FILE).exists():
        before = SuiteRecord.read(root)
        if before.digest != record.digest:
            what = f"suite {before.suite}" if before.suite != suite.name else "another version of the suite or topology"
            raise InputError(
                f"{root}: holds {what}; resume with the same files and options, or choose a different --out"
            )
        record = replace(record, started=before.started)
    record.write(root)
    return record


def _digest(suite: Suite) -> str:
    """Of the suite and its topology files."""
    digest = hashlib.sha256(suite.digest.encode())
    for name in sorted({one.experiment.network.topology or "" for one in suite.cases} - {""}):
        with suppress(OSError):  # the run reports a file that cannot be read
            digest.update(TOPOLOGIES.find(name).read_bytes())
    return digest.hexdigest()


class _CasePlayer:
    """Plays one case."""

    def __init__(self, case: Case, series: Series) -> None:
        self._case, self._series = case, series
        self._summaries: dict[str, RunSummary] = {}
        self._rules_file = series.root / f"{case.name}.rules.yaml"
        is_share = case.search is not None and case.search.quantity == "share"
        self._port_bps = slowest_port_bps(case) if is_share else 0

    def play(self) -> CaseRecord:
        case, search = self._case, self._case.search
        write_text(self._rules_file, case.rules_text)
        if search is not None:
            runs, sets = self._trials(search)
            return search_record(case, search, runs, sets)
        if case.repeat > 1:
            turns = [Turn(case.name, f"{number:02}", self._experiment(None)) for number in range(1, case.repeat + 1)]
            runs = [run for turn in turns for run in self._runs(turn)]
            return repeated_record(case, runs, self._as_one(runs))
        turn = Turn("", case.name, self._experiment(None), solo=case.interference is not None)
        return case_record(case, self._runs(turn))

    def _trials(self, search: Search) -> tuple[list[RunRecord], list[SetRecord]]:
        """Runs of a search; those that are complete tell which load comes next, so a search can be resumed.

        Returns:
            all runs, and what those of a load come to that were judged as one.
        """
        runs: list[RunRecord] = []
        sets: list[SetRecord] = []
        tried: dict[int, bool] = {}
        while (load := next_load(search, tried)) is not None:
            found, as_one = self._at(search, load)
            runs += found
            sets += [as_one] if as_one is not None else []
            tried[load] = outcomes_of(found, sets)[load] is Outcome.PASS
        return runs, sets

    def _at(self, search: Search, load: int) -> tuple[list[RunRecord], SetRecord | None]:
        """The trials of a load until one does not pass; if one leaves it open, more of them, judged as one."""
        runs: list[RunRecord] = []
        as_one: SetRecord | None = None
        is_open = False
        for number in range(1, max(search.trials, search.most_trials) + 1):
            if number > search.trials and not is_open:
                break
            (record,) = self._runs(Turn(self._case.name, f"{load}-{number}", self._experiment(load)), load)
            runs.append(record)
            is_open = is_open or record.is_open
            if record.problem or (record.outcome is not Outcome.PASS and not is_open):
                break
            if is_open and number >= max(search.trials, FEWEST_RUNS):
                as_one = self._as_one(runs, load)
                if as_one is not None and not as_one.is_open:
                    break
        return runs, as_one

    def _as_one(self, runs: Sequence[RunRecord], load: int | None = None) -> SetRecord | None:
        """What the runs that completed come to as one; None: they are fewer than two."""
        complete = [one.folder for one in runs if one.run_id is not None and not one.problem]
        for folder in complete:
            if folder not in self._summaries:
                self._summaries[folder] = summarise(read_run(self._series.root / folder))
        if len(complete) < 2:
            return None
        runs_as_one = RunSet("", (), [self._summaries[folder] for folder in complete])
        return set_record(runs_as_one.judge(self._case.rules), runs_as_one.shown, load=load)

    def _runs(self, turn: Turn, load: int | None = None) -> list[RunRecord]:
        """The jobs of a turn by the rules of the case, in their order; also what an aborted one measured."""
        outcome, jobs, bound = self._series.take(turn), turn.experiment.jobs, self._case.interference
        session = outcome.played or found_session(outcome.folder)
        factors = _factors(outcome.played) if outcome.played is not None and bound is not None else {}
        name, problem = outcome.folder.relative_to(self._series.root).as_posix(), outcome.problem or ""
        records = []
        for job in jobs:
            run = None if session is None else session.run if session.is_run else session.jobs.get(job.name)
            place, of = (name, None) if len(jobs) == 1 else (job_folder(Path(name), job.name).as_posix(), job.name)
            if run is None:
                left = RunRecord(
                    folder=place, run_id=None, outcome=Outcome.UNDECIDED, job=of, load=load, problem=problem
                )
                records.append(left)
                continue
            more = [] if bound is None else [_rule(bound, factors.get(job.name))]
            rate_bps = self._rate_bps(load)
            records.append(
                run_record(self._case, run, place, job=of, load=load, rate_bps=rate_bps, problem=problem, more=more)
            )
        return records

    def _rate_bps(self, load: int | None) -> int | None:
        """A load as a rate; None if it is a size, or there is none."""
        search = self._case.search
        if search is None or load is None or search.quantity == "size":
            return None
        return load if search.quantity == "rate" else load * self._port_bps // SHARES

    def _experiment(self, load: int | None) -> Experiment:
        """The run spec of a run, with its rules and its load."""
        part, search = part_of(self._case.experiment), self._case.search
        part = merge(part, {"observe": {"expect": str(self._rules_file)}})
        rate_bps = self._rate_bps(load)
        if rate_bps is not None:
            part = merge(part, {"network": {"transport": {"options": {"rate_cap_bps": f"{rate_bps}bit"}}}})
        elif search is not None:
            job = part["job"]
            sweep = {name: job["sweep"][name] for name in ("collective", "ranks")}
            part["job"] = {**job, "sweep": {**sweep, "sizes": [load]}}
        return build_experiment(part)


def slowest_port_bps(case: Case) -> int:
    """The rate of the slowest port of a case, bit/s.

    Raises:
        InputError: the topology gives no rates.
    """
    experiment = case.experiment
    job, network = experiment.job, experiment.network
    ranks = job.sweep.ranks if job.sweep is not None else (job.trace and job.trace.ranks) or 1
    rates = []
    if network.topology is not None:
        topology = load_topology(Path(network.topology), ranks=ranks, allow_networks=network.allow_networks)
        rates = [topology.rate_bps(rank) for rank in range(ranks)]
    known = [rate for rate in rates if rate]
    if not known:
        raise InputError(f"case {case.name}: searches a share of the ports' rate: it needs a --topology with rates")
    return min(known)


def _factors(session: StoredSession) -> Mapping[str, float]:
    """Job → interference factor of its JCT, of those that have one."""
    found = measure_interference([session]).jobs
    return {one.name: one.jct.effect.ratio for one in found if one.jct is not None and one.jct.effect is not None}


def _rule(bound: MetricBound, factor: float | None) -> Rule:
    """The bound as a rule for a run; the factor is a figure of the session, not of the summary of a run."""
    metric = Metric(
        name="interference",
        title="interference factor",
        unit=Unit.RATIO,
        scope=Scope.RUN,
        what="median JCT with the other jobs / median JCT alone",
        key="interference",
        kind=MetricKind.TIMING,
        effect=TesterEffect.EITHER,
        family="interference",
        statistic="",
        read=lambda summary: iter([Reading(None, factor)]),
    )
    return Rule(metric, bound, Selection())
