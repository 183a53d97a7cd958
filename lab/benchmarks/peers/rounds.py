"""Readings in turns: every round measures every subject once, and every other round in reversed order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from lab.benchmarks.peers.children import MeasurementFailed
from lab.benchmarks.peers.quantities import TARGETS, Quantity, Target, Verdict
from lab.benchmarks.peers.settings import Setting
from lab.benchmarks.peers.spread import Spread, paired_ratios, spread
from lab.benchmarks.peers.subjects import Reading, Subject

MOST_FAILURES = 2
"""A subject that failed so often is measured no more."""
Say = Callable[[str], None]


@dataclass(slots=True)
class Series:
    """The readings of a subject, by round; None if it gave none, then `problems` says why."""

    subject: Subject
    readings: list[Reading | None] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def values(self) -> list[float | None]:
        """By round."""
        return [None if reading is None else reading.value for reading in self.readings]

    @property
    def known(self) -> list[float]:
        """Those that there are."""
        return [value for value in self.values if value is not None]


@dataclass(frozen=True, slots=True)
class Comparison:
    """One line of the table: None if there is nothing to show; there is no ratio to a peer that is `too_noisy`."""

    setting: Setting
    ours: str
    peer: str | None
    own: Spread | None
    other: Spread | None
    ratio: Spread | None
    target: Target | None
    problem: str | None
    too_noisy: bool

    @property
    def judged(self) -> Spread | None:
        """What the target bounds."""
        return self.own if self.peer is None else self.ratio

    @property
    def verdict(self) -> Verdict | None:
        """None if there is no target."""
        if self.target is None:
            return None
        judged = self.judged
        return self.target.verdict(judged.median if judged else None, pairs=judged.count if judged else 0)


def measure(setting: Setting, *, pairs: int, say: Say) -> dict[str, Series]:
    """Play so many rounds; by the subjects' names."""
    series = {subject.name: Series(subject) for subject in setting.subjects}
    for one in series.values():
        lack = one.subject.lacking()
        one.problems += [] if lack is None else [lack]
    absent = {name for name, one in series.items() if one.problems}
    for number in range(pairs):
        for one in _order(list(series.values()), number):
            if one.subject.name in absent or len(one.problems) >= MOST_FAILURES:
                one.readings.append(None)
            else:
                said = _take(one, setting.quantity)
                say(f"{number + 1}/{pairs} {setting.key}: {one.subject.name}: {said}")
    return series


def _order(series: Sequence[Series], number: int) -> Iterator[Series]:
    return reversed(series) if number % 2 else iter(series)


def _take(series: Series, quantity: Quantity) -> str:
    """Add a reading, or None and the problem; words for either."""
    try:
        reading = series.subject.measure()
    except MeasurementFailed as error:
        series.problems.append(str(error))
        series.readings.append(None)
        return str(error)
    series.readings.append(reading)
    return quantity.show(reading.value)


def compare(setting: Setting, series: dict[str, Series], *, judged: bool) -> list[Comparison]:
    """The lines of a setting; `judged`: with targets."""
    return [_compare(setting, series, ours, peer, judged=judged) for ours, peer in setting.pairs]


def _compare(setting: Setting, series: dict[str, Series], ours: str, peer: str | None, *, judged: bool) -> Comparison:
    own, other = series[ours], None if peer is None else series[peer]
    problems = [*own.problems, *(other.problems if other else [])]
    peers = spread(other.known) if other else None
    too_noisy = peers is not None and peers.is_noisy
    return Comparison(
        setting=setting,
        ours=ours,
        peer=peer,
        own=spread(own.known),
        other=peers,
        ratio=spread(paired_ratios(own.values, other.values)) if other and not too_noisy else None,
        target=TARGETS.get((setting.key, ours, peer)) if judged else None,
        problem=problems[0] if problems else None,
        too_noisy=too_noisy,
    )
