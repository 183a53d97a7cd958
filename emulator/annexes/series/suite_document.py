"""Suites as YAML files: cases that are run specs with rules. docs/suites.md describes the format."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from msgspec import Meta

from emulator.errors import EmulatorError, EventError, InputError
from emulator.experiment.settle.defaults import overrides_of
from emulator.experiment.settle.events import refuse_commands
from emulator.experiment.spec.document import relative_to
from emulator.experiment.spec.parts import Part, build_experiment, check_jobs, common_of, merge, part_of
from emulator.experiment.spec.settings import with_settings
from emulator.experiment.spec.spec import Experiment
from emulator.results.statistics.metric import Unit
from emulator.results.verdict.rules import BoundSection, MetricBound, Rules, RuleSection, bound_in, rules_in
from emulator.schema import SchemaProblem, Section, decode, json_schema, require_one_of
from emulator.shipped import shipped_suites
from emulator.suggestions import did_you_mean
from emulator.topology.document import Document, read_document
from emulator.units import parse_fraction, parse_rate, parse_size

Quantity = Literal["rate", "share", "size"]
MOST_TRIALS = 8
"""Runs at a load that stays undecided: U by chance is 1.7 standard deviations of a run with 4, and 0.9 with 8."""


@dataclass(frozen=True, slots=True)
class Search:
    """Finds the highest load at which every trial passes.

    Attributes:
        quantity: what the load is: `rate`, the rate cap of every port in bit/s; `share`, the same in hundredths of a
            percent of the rate of the slowest port; or `size`, that of the sweep in bytes.
        low, high: the range of loads.
        resolution: stop when the bounds differ by this share of `high` or less.
        trials: number of runs at each load; all of them must pass.
        most_trials: runs at a load that stays undecided.
        at_least: the load that must be reached; `low` if the suite does not name one.
    """

    quantity: Quantity
    low: int
    high: int
    resolution: float
    trials: int
    at_least: int
    most_trials: int = MOST_TRIALS


Name = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$", max_length=60)]
_Load = str | int
_Count = Annotated[int, Meta(ge=1, le=99)]
_OF_THE_CASE = "the rules of a case are its key `rules`"


class SearchSection(Section, frozen=True, kw_only=True):
    """Find the highest load at which the rules of the case hold."""

    rate: tuple[_Load, _Load] | None = None
    size: tuple[_Load, _Load] | None = None
    resolution: str | float = "1%"
    trials: _Count = 1
    at_least: _Load | None = None
    most_trials: _Count = MOST_TRIALS


class CaseSection(Section, frozen=True, kw_only=True):
    """One case: a part of a run spec, in which `job` stands for its one job, and the rules for the result.

    With `jobs` it is a session: `job` and the defaults hold for each, as far as it does not set a value itself.
    """

    name: Name
    about: str = ""
    clause: str | None = None
    spec: Mapping[str, Any] = {}
    rules: tuple[RuleSection, ...] = ()
    interference: BoundSection | None = None
    search: SearchSection | None = None
    repeat: _Count = 1


class ClauseSection(Section, frozen=True, kw_only=True):
    """A clause of the source: the cases that carry it out, or why it is always met, or never."""

    clause: str
    title: str
    cases: Annotated[tuple[str, ...], Meta(min_length=1)] | None = None
    met: str | None = None
    not_met: str | None = None

    def __post_init__(self) -> None:
        require_one_of(self, "cases", "met", "not_met")


class SuiteFile(Section, frozen=True, kw_only=True):
    """A suite file; `json_schema(SuiteFile)` exports it as JSON Schema."""

    charkha_suite: Literal[1]
    name: Name
    description: str = ""
    source: str = ""
    not_covered: tuple[str, ...] = ()
    defaults: Mapping[str, Any] = {}
    rules: tuple[RuleSection, ...] = ()
    cases: Annotated[tuple[CaseSection, ...], Meta(min_length=1)]
    clauses: tuple[ClauseSection, ...] = ()


@dataclass(frozen=True, slots=True)
class Case:
    """A case that can be played.

    Attributes:
        name: unique in the suite; that of its folder.
        about: what it tests, in a sentence.
        clause: of the source; None if it belongs to none.
        experiment: the run, or a session of several jobs; of a search, without the load.
        rules: decide whether a run passes, and each job of a session.
        rules_text: the same as a rules file.
        search: None: one run, or one session.
        interference: bound on the interference factor of the JCT of each job of a session, which is then played alone
            first; None: no bound.
        repeat: runs that are judged as one.
    """

    name: str
    about: str
    clause: str | None
    experiment: Experiment
    rules: Rules
    rules_text: str
    search: Search | None = None
    interference: MetricBound | None = None
    repeat: int = 1


@dataclass(frozen=True, slots=True)
class Suite:
    """A suite that can be played.

    Attributes:
        source: the public document that it follows.
        not_covered: what of it the suite does not cover.
        cases: in the order they are played.
        clauses: of the source, for `conformance.json`.
    """

    name: str
    description: str
    source: str
    not_covered: tuple[str, ...]
    cases: tuple[Case, ...]
    clauses: tuple[ClauseSection, ...]

    @property
    def digest(self) -> str:
        """SHA-256 of everything that determines what is played and how it is judged, in hex."""
        cases = [
            (one.name, one.experiment.to_plain(), one.rules_text, repr(one.search), str(one.interference), one.repeat)
            for one in self.cases
        ]
        return hashlib.sha256(json.dumps(cases, sort_keys=True).encode()).hexdigest()


def find_suite(name: str) -> Path:
    """The file that a name on the command line stands for: a path, or a suite that Charkha ships.

    Raises:
        InputError: there is no such file and no such suite.
    """
    shipped = shipped_suites()
    if name in shipped and not Path(name).is_file():
        return shipped[name]
    if not Path(name).exists():
        advice = did_you_mean(name, shipped) or "; `charkha suite list` lists the shipped suites"
        raise InputError(f"there is no suite {name!r}{advice}")
    return Path(name)


def read_suite(path: Path, *, over: Mapping[str, Any] | None = None, settings: Sequence[tuple[str, str]] = ()) -> Suite:
    """Read a suite. Relative paths in it start at the folder of the file.

    Args:
        path: of the file.
        over: part of a run spec that overrides that of every case, such as the topology.
        settings: of every case, by name and value; see `find_setting`.

    Raises:
        InputError: the file cannot be read, or is not a suite; the message has file, line, case and key. Or a case has
            no such setting.
    """
    document = read_document(path)
    try:
        file = decode(document.value, SuiteFile)
    except SchemaProblem as problem:
        raise document.error(problem.problem, problem.path) from problem
    cases = tuple(_CaseReader(document, file, at).read(over or {}, settings) for at in range(len(file.cases)))
    names = [one.name for one in cases]
    for at, name in enumerate(names):
        if name in names[:at]:
            raise document.error(f"there are two cases {name!r}", ("cases", at, "name"))
    for at, clause in enumerate(file.clauses):
        for number, name in enumerate(clause.cases or ()):
            document.require(name, names, "case", ("clauses", at, "cases", number))
    return Suite(file.name, file.description, file.source, file.not_covered, cases, file.clauses)


def single_runs(path: Path, over: Mapping[str, Any]) -> tuple[dict[str, Experiment], list[str]]:
    """The cases of a suite that are one run, for who plays each on its own.

    Args:
        path, over: as of `read_suite`.

    Returns:
        Name of the case → its run spec; and for each other case its name and why it is none of them.

    Raises:
        InputError: the file is not a suite.
    """
    runs, others = {}, []
    for case in read_suite(path, over=over).cases:
        if case.search is not None:
            others.append(f"{case.name}: is a search, which is many runs: charkha suite run plays it")
        elif case.interference is not None:
            others.append(f"{case.name}: plays its jobs alone too: charkha suite run does that")
        else:
            runs[case.name] = case.experiment
    return runs, others


def rules_of_cases(path: Path) -> dict[str, str]:
    """Name of each case of a suite → its rules, as a rules file.

    Raises:
        InputError: the file is not a suite.
    """
    return {case.name: case.rules_text for case in read_suite(path).cases}


def suite_schema() -> dict[str, Any]:
    """The JSON Schema of a suite file."""
    return json_schema(SuiteFile)


class _CaseReader:
    """Reads one case; every error names it."""

    def __init__(self, document: Document, file: SuiteFile, at: int) -> None:
        self._document, self._file, self._at = document, file, at
        self._case = file.cases[at]

    def read(self, over: Mapping[str, Any], settings: Sequence[tuple[str, str]]) -> Case:
        case, place = self._case, ("cases", self._at, "rules") if self._case.rules else ("rules",)
        sections = case.rules or self._file.rules
        if not sections:
            raise self._error("has no rules, and the suite has no common rules", ())
        rules = Rules(f"{self._file.name}: {case.name}", rules_in(sections, self._document, place))
        experiment = self._experiment(over)
        try:
            experiment = with_settings(experiment, settings)
        except InputError as error:
            raise InputError(f"case {case.name}: {error}") from error
        text = yaml.safe_dump(
            {"charkha_rules": 1, "name": rules.name, "rules": self._plain_rules()}, sort_keys=False, allow_unicode=True
        )
        return Case(
            name=case.name,
            about=case.about,
            clause=case.clause,
            experiment=experiment,
            rules=rules,
            rules_text=text,
            search=self._search(experiment),
            interference=self._interference(experiment),
            repeat=self._repeat(experiment),
        )

    def _plain_rules(self) -> Any:
        value = self._document.value
        return value["cases"][self._at].get("rules") or value["rules"]

    def _experiment(self, over: Mapping[str, Any]) -> Experiment:
        if "jobs" in self._file.defaults:
            raise self._error("write `job`: the defaults apply to every job", ("jobs",))
        part = merge(self._file.defaults, self._case.spec)
        try:
            check_jobs(part)
            own = _with_own_jobs(part)
            experiment = build_experiment(own)
            whole = relative_to(self._document.path.parent, experiment)
            for job in whole.jobs:
                overrides_of(job)
            if over:
                whole = build_experiment(merge(part_of(whole), over))
        except SchemaProblem as problem:
            raise self._error(problem.problem, problem.path) from problem
        except EmulatorError as error:
            raise self._error(str(error), ("job", "algorithms")) from error
        if experiment.campaign is not None:
            raise self._error("a case is one run, or a search; it has no campaign", ("campaign",))
        try:
            refuse_commands(experiment.events)
        except EventError as error:
            advice = "runs a command, which no suite does: play it with `charkha run -f FILE --allow-commands`"
            raise self._error(advice, ("events", error.number, error.key)) from error
        if experiment.observe.expect is not None:
            raise self._error(_OF_THE_CASE, ("observe", "expect"))
        return whole

    def _repeat(self, experiment: Experiment) -> int:
        if self._case.repeat > 1 and (self._case.search or len(experiment.jobs) > 1):
            raise self._document.error("is for one job without a search", ("cases", self._at, "repeat"))
        return self._case.repeat

    def _interference(self, experiment: Experiment) -> MetricBound | None:
        section, place = self._case.interference, ("cases", self._at, "interference")
        if section is None:
            return None
        if len(experiment.jobs) == 1:
            raise self._document.error("needs several jobs (spec.jobs)", place)
        return bound_in(section, Unit.RATIO, self._document, place)

    def _search(self, experiment: Experiment) -> Search | None:
        section = self._case.search
        if section is None:
            return None
        place = ("cases", self._at, "search")
        if len(experiment.jobs) > 1:
            raise self._document.error("a search has one job", place)
        limits = section.rate or section.size
        if limits is None or (section.rate and section.size):
            raise self._document.error("needs exactly one of rate and size", place)
        quantity: Quantity = "rate" if section.rate is not None else "size"
        if quantity == "size" and experiment.job.sweep is None:
            raise self._document.error("sizes are searched with a sweep (spec.job.sweep)", place)
        if quantity == "rate" and all(str(one).endswith("%") for one in limits):
            quantity = "share"
        parse = {"rate": parse_rate, "share": _parse_share, "size": parse_size}[quantity]
        try:
            low, high = (parse(str(one)) for one in limits)
            least = low if section.at_least is None else parse(str(section.at_least))
            resolution = parse_fraction(str(section.resolution))
        except ValueError as error:
            raise self._document.error(str(error), place) from error
        if not 0 < low < high or not low <= least <= high:
            raise self._document.error("needs 0 < low < high, and at_least between them", place)
        return Search(quantity, low, high, resolution, section.trials, least, section.most_trials)

    def _error(self, problem: str, key: tuple[str | int, ...]) -> InputError:
        """Names the place in the case, or in the defaults if the value is from there."""
        own = ("cases", self._at, "spec")
        place = own if _has(self._case.spec, key) or not _has(self._file.defaults, key) else ("defaults",)
        return self._document.error(f"case {self._case.name}: {problem}", (*place, *key) if key else own[:2])


def _with_own_jobs(part: Part) -> Part:
    """The part with what holds for all jobs in each of them; what a job sets itself wins."""
    if "jobs" not in part:
        return part
    common = part.get("job", {})
    jobs = [merge(common_of(one, common), one) for one in part["jobs"]]
    return {key: value for key, value in part.items() if key != "job"} | {"jobs": jobs}


def _parse_share(text: str) -> int:
    """A share of the rate of a port, `95 %`, in hundredths of a percent.

    Raises:
        ValueError: not a percentage up to 100.
    """
    share = 1.0 if text.removesuffix("%").strip() == "100" else parse_fraction(text)
    return round(share * 10_000)


def _has(part: Any, key: tuple[str | int, ...]) -> bool:
    for step in key:
        if not isinstance(part, Mapping) or step not in part:
            return False
        part = part[step]
    return True
