"""Plays a suite into a folder: a run folder for every case. A case that is complete is never played twice.

DIR/suite.json           what is played, and the results so far
DIR/CASE/                the run folder of a case
DIR/CASE/job=a/          of a case that is a session: the run folder of job a
DIR/CASE.rules.yaml      its rules
DIR/CASE/250000000-1/    of a search: the run folder of the first trial at 250 Mbit/s
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from msgspec.structs import replace

from emulator.errors import InputError
from emulator.experiment.series.suite.document import Case, Suite
from emulator.experiment.series.suite.record import (
    RECORD,
    CaseRecord,
    RunRecord,
    SuiteRecord,
    case_record,
    new_record,
    read_record,
    run_record,
    write_record,
)
from emulator.experiment.series.suite.search import Search
from emulator.experiment.series.suite.search_record import search_record
from emulator.experiment.series.turns import Play, Series, Turn
from emulator.experiment.spec.parts import build_experiment, merge, part_of
from emulator.experiment.spec.spec import Experiment
from emulator.host.files import write_text
from emulator.results.comparison.interference import measure_interference
from emulator.results.run_folder.claim import claimed
from emulator.results.run_folder.reader import Run, read_run
from emulator.results.run_folder.session import StoredSession, complete_session, job_folder, load_session
from emulator.results.run_folder.session import is_session as has_session
from emulator.results.run_folder.store import is_run_folder
from emulator.results.statistics.metric import Metric, MetricKind, Reading, Scope, TesterEffect, Unit
from emulator.results.verdict.judge import Outcome
from emulator.results.verdict.rules import MetricBound, Rule, Selection
from emulator.shipped import TOPOLOGIES
from emulator.topology.load import load_topology

SUITES = Path("suites")
"""Default root of the folders of suites."""
SHARES = 10_000
"""Shares of the rate of a port are counted in hundredths of a percent."""

OnRun = Callable[[int, Path], None]
"""Called before a run with the number of its case, from 1, and its folder."""


def latest_folder(name: str) -> Path:
    """The folder below suites/ that was made last for a suite.

    Raises:
        InputError: there is none.
    """
    found = sorted(path.parent for path in SUITES.glob(f"*-{name}/{RECORD}") if read_record(path.parent).suite == name)
    if not found:
        raise InputError(f"{SUITES}: has no folder of suite {name}; give one with --out DIR")
    return found[-1]


def play_suite(
    suite: Suite,
    root: Path,
    play: Play,
    *,
    resume: bool = False,
    on_run: OnRun = lambda number, folder: None,
) -> Generator[SuiteRecord, None, None]:
    """Play the cases in order; yields the result so far before the first and after every case.

    A run that fails leaves its case UNDECIDED, unless what it measured fails a rule; the next case is played.

    Args:
        suite: to play.
        root: folder of the suite; empty or missing, unless `resume`.
        play: plays one run, or one session.
        resume: continue in a folder of this suite: complete runs are kept, others are played again.
        on_run: called before each run.

    Raises:
        EmulatorError: another suite uses the folder, or it holds another suite; bad input, a host that lacks something.
        KeyboardInterrupt, RunInterrupted: the same; what is complete stays.
    """
    if resume and not (root / RECORD).is_file():
        raise InputError(f"{root}: there is no suite to resume (no {RECORD})")
    series = Series(root, play, lambda _, folder: on_run(len(record.cases) + 1, folder), has_record=True)
    with claimed(root, is_new=not resume):
        record = _begin(suite, root)
        yield record
        players = [_CasePlayer(case, series) for case in suite.cases]
        for player in players:
            record = record.with_case(player.play())
            write_record(record, root)
            yield record


def _begin(suite: Suite, root: Path) -> SuiteRecord:
    """Write the record of a suite without results; of one that is resumed, keep its start.

    Raises:
        InputError: the folder holds another suite.
    """
    record = new_record(suite, digest=_digest(suite), started=datetime.now().astimezone().isoformat(timespec="seconds"))
    if (root / RECORD).exists():
        before = read_record(root)
        if before.digest != record.digest:
            what = f"suite {before.suite}" if before.suite != suite.name else "another version of the suite or topology"
            raise InputError(
                f"{root}: holds {what}; resume with the same files and options, or choose a different --out"
            )
        record = replace(record, started=before.started)
    write_record(record, root)
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
        self._rules_file = series.root / f"{case.name}.rules.yaml"
        is_share = case.search is not None and case.search.quantity == "share"
        self._port_bps = slowest_port_bps(case) if is_share else 0

    def play(self) -> CaseRecord:
        write_text(self._rules_file, self._case.rules_text)
        if self._case.search is not None:
            return search_record(self._case, self._case.search, list(self._trials(self._case.search)))
        turn = Turn("", self._case.name, self._experiment(None), solo=self._case.interference is not None)
        if len(self._case.experiment.jobs) == 1:
            return case_record(self._case, [self._run(turn, None)])
        outcome = self._series.take(turn)
        return case_record(
            self._case, session_records(self._case, outcome.folder, turn.name, problem=outcome.problem or "")
        )

    def _trials(self, search: Search) -> Iterator[RunRecord]:
        """Runs of a search; those that are complete tell which load comes next, so a search can be resumed."""
        tried: dict[int, bool] = {}
        while (load := search.next_load(tried)) is not None:
            tried[load] = True
            for number in range(1, search.trials + 1):
                record = self._run(Turn(self._case.name, f"{load}-{number}", self._experiment(load)), load)
                yield record
                if record.outcome is not Outcome.PASS:
                    tried[load] = False
                    break

    def _run(self, turn: Turn, load: int | None) -> RunRecord:
        outcome = self._series.take(turn)
        name, problem = outcome.folder.relative_to(self._series.root).as_posix(), outcome.problem or ""
        if outcome.problem is not None and not is_run_folder(outcome.folder):
            return RunRecord(folder=name, run_id=None, outcome=Outcome.UNDECIDED, load=load, problem=problem)
        run = outcome.played if isinstance(outcome.played, Run) else read_run(outcome.folder)
        return run_record(self._case, run, name, load=load, rate_bps=self._rate_bps(load), problem=problem)

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


def session_records(case: Case, folder: Path, name: str, *, problem: str = "") -> list[RunRecord]:
    """The jobs of a session by the rules of its case, in their order.

    Args:
        case: what was played.
        folder: of the session; need not hold one if `problem` says why.
        name: of the folder, below that of the suite.
        problem: why the session failed.

    Raises:
        ResultError: a run cannot be read.
    """
    session = load_session(folder) if has_session(folder) else None
    factors = _factors(complete_session(folder)) if case.interference is not None else {}
    records = []
    for job in case.experiment.jobs:
        of_job = job_folder(Path(name), job.name).as_posix()
        run = None if session is None else session.jobs.get(job.name)
        if run is None:
            record = RunRecord(folder=of_job, run_id=None, outcome=Outcome.UNDECIDED, problem=problem, job=job.name)
            records.append(record)
            continue
        more = [] if case.interference is None else [_rule(case.interference, factors.get(job.name))]
        records.append(run_record(case, run, of_job, problem=problem, job=job.name, more=more))
    return records


def _factors(session: StoredSession | None) -> Mapping[str, float]:
    """Job → interference factor of its JCT, of those that have one."""
    found = () if session is None else measure_interference([session]).jobs
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
