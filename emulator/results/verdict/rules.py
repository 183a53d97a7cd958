"""Rules for the verdict on a run, as a YAML file: bounds on metrics. docs/expect.md describes the format."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta

from emulator.results.run_folder.reader import Run
from emulator.results.statistics.metric import Metric, Scope, Unit
from emulator.results.statistics.metrics import METRICS
from emulator.results.statistics.samples.classes import ClassKey
from emulator.schema import SchemaProblem, Section, decode, json_schema
from emulator.suggestions import did_you_mean
from emulator.topology.document import Document, read_document
from emulator.trace.meaning.names import parse_class_name
from emulator.units import BITS_PER_BYTE, parse_duration, parse_rate, parse_size

EXAMPLE = "example"
"""Name of the rules that Charkha ships."""
RULES_FILE = "rules.yaml"
"""In a run folder: the rules that the run was played with."""
_Number = Annotated[str | int | float, Meta(description="with its unit: 25 ms, 1.2 GB/s, 90 %")]
_BANDWIDTH = re.compile(r"(\d+(?:\.\d+)?)\s*([kKMGT]?)B/s", re.ASCII)
_DECIMAL = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


class _WhereSection(Section, frozen=True, kw_only=True):
    """Selects classes; a key that is absent selects all."""

    collective: str | None = None
    algorithm: str | None = None
    ranks: Annotated[int, Meta(ge=1)] | None = None
    min_size: str | int | None = None
    max_size: str | int | None = None


class BoundSection(Section, frozen=True, kw_only=True):
    """One limit for a value."""

    at_most: _Number | None = None
    at_least: _Number | None = None
    below: _Number | None = None
    above: _Number | None = None


class RuleSection(BoundSection, frozen=True, kw_only=True):
    """One bound on one metric."""

    metric: str
    where: _WhereSection = _WhereSection()


class RulesFile(Section, frozen=True, kw_only=True):
    """A rules file; `json_schema(RulesFile)` exports it as JSON Schema."""

    charkha_rules: Literal[1] = 1
    name: Annotated[str, Meta(min_length=1)] | None = None
    rules: Annotated[tuple[RuleSection, ...], Meta(min_length=1)]


@dataclass(frozen=True, slots=True)
class MetricBound:
    """A limit for a metric.

    Attributes:
        kind: how the value is compared with `limit`.
        limit: in the unit of the metric.
        text: as the file has it.
    """

    kind: Literal["at most", "at least", "below", "above"]
    limit: float
    text: str

    @property
    def is_lower(self) -> bool:
        """Whether larger values are better."""
        return self.kind in ("at least", "above")

    def holds(self, value: float) -> bool:
        """Whether a value meets the bound."""
        return {
            "at most": value <= self.limit,
            "at least": value >= self.limit,
            "below": value < self.limit,
            "above": value > self.limit,
        }[self.kind]

    def __str__(self) -> str:
        return f"{self.kind} {self.text}"


@dataclass(frozen=True, slots=True)
class Selection:
    """Classes that a rule applies to; None selects all."""

    collective: str | None = None
    algorithm: str | None = None
    ranks: int | None = None
    min_bytes: int | None = None
    max_bytes: int | None = None

    def takes(self, key: ClassKey) -> bool:
        """Whether the rule applies to a class."""
        wanted = ((self.collective, key.collective), (self.algorithm, key.algorithm), (self.ranks, key.members))
        return (
            all(one is None or one == found for one, found in wanted)
            and (self.min_bytes is None or key.size_bytes >= self.min_bytes)
            and (self.max_bytes is None or key.size_bytes <= self.max_bytes)
        )


@dataclass(frozen=True, slots=True)
class Rule:
    """A bound on a metric, for the run or for some of its classes."""

    metric: Metric
    bound: MetricBound
    where: Selection

    def __str__(self) -> str:
        return f"{self.metric.name} {self.bound}"


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of a file.

    Attributes:
        name: for people.
        rules: at least one.
        is_example: these are the rules that Charkha ships.
    """

    name: str
    rules: tuple[Rule, ...]
    is_example: bool = False


def rules_file(name: str) -> Path:
    """The file that a name on the command line or in a run spec stands for: a path, or the rules that Charkha ships."""
    shipped = files("emulator.results.verdict") / f"{EXAMPLE}.yaml"
    return Path(str(shipped)) if name == EXAMPLE and not Path(name).exists() else Path(name)


def rules_of(run: Run) -> Rules | None:
    """The rules that a run was played with; None if it had none.

    Raises:
        InputError: as for `load_rules`.
    """
    stored = run.folder / RULES_FILE
    return rules_from(read_document(stored)) if stored.is_file() else None


def load_rules(name: str) -> Rules:
    """The rules of a file, or those that Charkha ships by their name.

    Raises:
        InputError: the file cannot be read, or is not a rules file; the message has file, line and key.
    """
    path = rules_file(name)
    return rules_from(read_document(path), is_example=path != Path(name))


def rules_from(document: Document, *, is_example: bool = False) -> Rules:
    """The rules of a document, which is a whole rules file.

    Raises:
        InputError: it is none; the message has file, line and key.
    """
    try:
        sections = decode(document.value, RulesFile)
    except SchemaProblem as problem:
        raise document.error(problem.problem, problem.path) from problem
    return Rules(sections.name or document.path.stem, rules_in(sections.rules, document, ("rules",)), is_example)


def rules_in(sections: Sequence[RuleSection], document: Document, place: tuple[str | int, ...]) -> tuple[Rule, ...]:
    """The rules of a list in a document.

    Args:
        sections: the list.
        document: for errors.
        place: path of the list in the document.

    Raises:
        InputError: a metric, a bound or a selection that does not exist; the message has file, line and key.
    """
    return tuple(_rule(one, document, (*place, at)) for at, one in enumerate(sections))


def _rule(section: RuleSection, document: Document, place: tuple[str | int, ...]) -> Rule:
    metric = METRICS.get(section.metric)
    if metric is None:
        raise document.error(_unknown_metric(section.metric), (*place, "metric"))
    bound = bound_in(section, metric.unit, document, place)
    where = _selection(section.where, document, place)
    if metric.scope is not Scope.CLASS and where != Selection():
        problem = f"{metric.name} is a metric of {_SCOPES[metric.scope]}: only those of classes have a `where`"
        raise document.error(problem, (*place, "where"))
    return Rule(metric, bound, where)


def bound_in(section: BoundSection, unit: Unit, document: Document, place: tuple[str | int, ...]) -> MetricBound:
    """The limit in a part of a document, in a unit.

    Raises:
        InputError: not exactly one limit, or one in another unit; the message has file, line and key.
    """
    given = [
        (kind, text)
        for kind in ("at_most", "at_least", "below", "above")
        if (text := getattr(section, kind)) is not None
    ]
    if len(given) != 1:
        raise document.error("a rule needs exactly one of at_most, at_least, below and above", place)
    kind, text = given[0]
    try:
        limit = _parse(str(text), unit)
    except ValueError as error:
        raise document.error(str(error), (*place, kind)) from error
    return MetricBound(kind.replace("_", " "), limit, str(text))  # type: ignore[arg-type]


_SCOPES = {
    Scope.RUN: "the whole run",
    Scope.ITERATION: "every iteration",
    Scope.FLOW: "every flow",
    Scope.DEVICE: "every device",
    Scope.EVENT: "every event",
    Scope.PORT: "every port",
}


def _unknown_metric(name: str) -> str:
    advice = did_you_mean(name, METRICS) or "; `charkha runs judge --metrics` lists them"
    return f"there is no metric {name!r}{advice}"


def _selection(section: _WhereSection, document: Document, place: tuple[str | int, ...]) -> Selection:
    sizes = {}
    for key in ("min_size", "max_size"):
        text = getattr(section, key)
        try:
            sizes[key] = None if text is None else parse_size(str(text))
        except ValueError as error:
            raise document.error(str(error), (*place, "where", key)) from error
    try:
        collective = None if section.collective is None else parse_class_name(section.collective)
    except ValueError as error:
        raise document.error(str(error), (*place, "where", "collective")) from error
    return Selection(collective, section.algorithm, section.ranks, sizes["min_size"], sizes["max_size"])


def _parse(text: str, unit: Unit) -> float:
    """A quantity in the unit of its metric.

    Raises:
        ValueError: the text is not such a quantity.
    """
    return _PARSERS[unit](text.strip())


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not value >= 0:
        raise ValueError(f"{text!r} is not a number of at least 0")
    return value


def _ratio(text: str) -> float:
    return _number(text[:-1].strip()) / 100 if text.endswith("%") else _number(text)


def _percent(text: str) -> float:
    if not text.endswith("%"):
        raise ValueError(f"{text!r} has no unit: write a percentage such as 90 %")
    return _number(text[:-1].strip())


def _bandwidth(text: str) -> float:
    match = _BANDWIDTH.fullmatch(text)
    if match is not None:
        return float(match[1]) * _DECIMAL[match[2]]
    try:
        return parse_rate(text) / BITS_PER_BYTE
    except ValueError:
        raise ValueError(f"{text!r} is not a bandwidth: write 1.2 GB/s (1e9 bytes) or 10 Gbit/s") from None


_PARSERS: Mapping[Unit, Callable[[str], float]] = {
    Unit.NS: parse_duration,
    Unit.BYTES_PER_S: _bandwidth,
    Unit.BYTES: parse_size,
    Unit.RATIO: _ratio,
    Unit.PERCENT: _percent,
    Unit.COUNT: _number,
}


def rules_schema() -> dict[str, Any]:
    """The JSON Schema of a rules file."""
    return json_schema(RulesFile)
