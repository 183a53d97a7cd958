"""What a sweep varies, from `NAME=LIST` or `NAME=RANGE`, and its points: every combination, as a run spec."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from msgspec.structs import replace

from emulator.errors import HostError, InputError
from emulator.experiment.play.play import prepare
from emulator.experiment.series import Play, Turn, in_turns
from emulator.experiment.settle.workload import LatestJobs
from emulator.experiment.spec.settings import START, find_setting, with_setting
from emulator.experiment.spec.spec import AUTO, Experiment
from emulator.results.run_folder.session import StoredSession
from emulator.results.verdict.rules import load_rules
from emulator.schema import SchemaProblem
from emulator.units import format_size, parse_duration, parse_rate, parse_size

SWEEPS = Path("sweeps")
"""Default root of the folders of sweeps."""
CONTINUOUS = "continuous"
_UNSAFE = re.compile(r"[^\w.+-]+", re.ASCII)
_LONGEST_VALUE = 60


@dataclass(frozen=True, slots=True)
class Point:
    """A point of a sweep.

    Attributes:
        values: name of the axis → value, as text.
        folder: below that of the sweep: `qps=2/dscp=26`, which readers of Parquet take for columns.
        experiment: the run spec of one run, or of a session of several jobs.
        settings: paths of what varies.
    """

    values: Mapping[str, str]
    folder: str
    experiment: Experiment
    settings: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in self.values.items())


@dataclass(frozen=True, slots=True)
class GridSweep:
    """A sweep that can be played.

    Attributes:
        axes: the last one varies fastest.
        points: in the order of the first turn.
        repeat: runs of each point.
    """

    axes: Sequence[Axis]
    points: Sequence[Point]
    repeat: int

    @property
    def turns(self) -> list[Turn]:
        """Every run: all points, then all of them again."""
        return in_turns({point.folder: point.experiment for point in self.points}, repeat=self.repeat)


def make_sweep(experiment: Experiment, axes: Sequence[Axis]) -> GridSweep:
    """The points of a sweep.

    Args:
        experiment: what is varied; its campaign says how often each point is played.
        axes: at least one.

    Raises:
        InputError: a setting is varied twice, there are too many points, or a value does not fit; it names the point.
    """
    repeat = repeats_of(experiment)
    paths = [axis.path for axis in axes]
    if twice := [axis.name for at, axis in enumerate(axes) if axis.path in paths[:at]]:
        raise InputError(f"--vary {twice[0]}: this setting varies twice")
    combinations = list(itertools.islice(itertools.product(*(axis.values for axis in axes)), MOST_VALUES + 1))
    if len(combinations) > MOST_VALUES:
        raise InputError(f"--vary: there are more than {MOST_VALUES:,} points")
    base, folders = replace(experiment, campaign=None), [_folders(axis) for axis in axes]
    points = []
    for values in combinations:
        parts = [names[value] for names, value in zip(folders, values, strict=True)]
        points.append(_point(base, axes, values, "/".join(parts)))
    return GridSweep(axes, points, repeat)


def points_of(text: str, experiment: Experiment) -> dict[str, Experiment]:
    """The points of a sweep of one setting, for who plays each on its own: `qps=4` → its run spec.

    Args:
        text: the axis; see `parse_axis`.
        experiment: what is varied.

    Raises:
        InputError: it is no axis, there are too many points, or a value does not fit.
    """
    return {str(point): point.experiment for point in make_sweep(experiment, [parse_axis(text, experiment)]).points}


def repeats_of(experiment: Experiment) -> int:
    """How often each point is played.

    Raises:
        InputError: it is not a number.
    """
    campaign = experiment.campaign
    if campaign is not None and (campaign.profiles or campaign.repeat == AUTO):
        raise InputError("a sweep needs a number of runs (--repeat N); it varies profiles with --vary profile=A,B")
    return 1 if campaign is None else int(campaign.repeat)


def solo_once(play: Play) -> Play:
    """Plays the jobs of a session alone only the first time: they take as long alone wherever they meet."""
    alone = set[str]()

    def play_turn(experiment: Experiment, folder: Path, *, solo: bool = False) -> StoredSession:
        shared = apart_from_starts(experiment)
        played = play(experiment, folder, solo=len(experiment.jobs) > 1 and shared not in alone)
        alone.add(shared)
        return played

    return play_turn


def apart_from_starts(experiment: Experiment) -> str:
    """What sessions have in common in which the jobs only meet at other times: their jobs take as long alone."""
    jobs = tuple(replace(job, start=None) for job in experiment.jobs)
    return json.dumps(replace(experiment, jobs=jobs).to_plain(), sort_keys=True)


def check_points(sweep: GridSweep, jobs: LatestJobs, *, on_step: Callable[[str], None] = lambda _: None) -> None:
    """Settle every point as a run does, but for its traffic.

    Args:
        sweep: to play.
        jobs: loads the jobs of every point.
        on_step: receives the current step, for a status line.

    Raises:
        InputError, HostError: a point cannot be played; the message names it.
    """
    for number, point in enumerate(sweep.points, 1):
        on_step(f"checking point {number} of {len(sweep.points)}: {point}")
        try:
            if point.experiment.observe.expect is not None:
                load_rules(point.experiment.observe.expect)
            _check_pace(point)
            with prepare(point.experiment, jobs.load(point.experiment.jobs)):
                pass
        except (InputError, HostError) as error:
            kind = InputError if isinstance(error, InputError) else HostError
            raise kind(f"point {point}: {error}") from error


def _check_pace(point: Point) -> None:
    if START in point.settings and len(point.experiment.jobs) > 1:
        for job in point.experiment.jobs:
            if job.pace != CONTINUOUS:
                raise InputError(
                    f"job {job.name} needs `pace: {CONTINUOUS}`: with a barrier, the gaps between iterations move the "
                    "jobs against each other"
                )


def _point(base: Experiment, axes: Sequence[Axis], values: Sequence[str], folder: str) -> Point:
    named = {axis.name: value for axis, value in zip(axes, values, strict=True)}
    experiment = base
    for axis, value in zip(axes, values, strict=True):
        try:
            experiment = with_setting(experiment, axis.path, value)
        except SchemaProblem as problem:
            raise InputError(f"point {axis.name}={value}: {problem}") from problem
    return Point(named, folder, experiment, frozenset(axis.path for axis in axes))


def _folders(axis: Axis) -> Mapping[str, str]:
    """Value → name of its folder; a number tells apart values whose names would be the same."""
    found: dict[str, str] = {}
    for value in axis.values:
        name = f"{axis.name}={_UNSAFE.sub('_', value)[-_LONGEST_VALUE:]}"
        found[value] = name if name not in found.values() else f"{name}-{len(found) + 1}"
    return found


MOST_VALUES = 1_000
VALUES = "1,2,4 or FIRST:LAST:STEP or FIRST:LAST:xFACTOR"
FORMS = f"write NAME=VALUES, with values as {VALUES}"


@dataclass(frozen=True, slots=True)
class Axis:
    """A setting and its values.

    Attributes:
        name: of the setting, in a word, as the user wrote it.
        path: of the setting in a run spec.
        values: as text, in the order they are played; no two are the same.
    """

    name: str
    path: str
    values: tuple[str, ...]


def parse_axis(text: str, experiment: Experiment) -> Axis:
    """An axis from text.

    Args:
        text: `qps=1,2,4`, `size=64K:16M:x4`, `flow-rate=100Mbit:500Mbit:100Mbit`.
        experiment: the run spec that is varied.

    Raises:
        InputError: not in one of these forms, a setting that the run spec does not have, or a value twice.
    """
    name, equals, listed = text.partition("=")
    if not equals or not name or not listed:
        raise InputError(f"--vary {text!r}: {FORMS}")
    try:
        values = parse_values(listed)
    except ValueError as error:
        raise InputError(f"--vary {name}: {error}") from error
    return Axis(name.strip().replace("-", "_"), find_setting(name, experiment), values)


def parse_values(text: str) -> tuple[str, ...]:
    """The values of a list, or of a range.

    Raises:
        ValueError: a value is empty or there twice, or the range is none.
    """
    values = tuple(parse_range(text) if ":" in text else map(str.strip, text.split(",")))
    if not all(values):
        raise ValueError(f"{text!r}: a value is empty")
    if twice := [one for at, one in enumerate(values) if one in values[:at]]:
        raise ValueError(f"{twice[0]} is given twice")
    return values


def parse_range(text: str) -> list[str]:
    """The values of FIRST:LAST:STEP, or of FIRST:LAST:xFACTOR; the last one is there if a step meets it.

    Raises:
        ValueError: not a range, or one that has no end.
    """
    parts = text.split(":")
    if len(parts) != 3:
        raise ValueError(f"{text!r}: write {VALUES}")
    first, last, step = parts
    read, write = _unit_of(first)
    low, high = read(first), read(last)
    grows = step.startswith("x")
    by = Fraction(step[1:]) if grows else read(step)
    if low > high or by <= (1 if grows else 0) or (grows and low <= 0):
        raise ValueError(f"{text!r} never gets from {first} to {last}")
    return [write(value) for value in _between(low, high, by, grows=grows)]


def _between(low: Fraction, high: Fraction, by: Fraction, *, grows: bool) -> Iterator[Fraction]:
    value, count = low, 0
    while value <= high:
        if (count := count + 1) > MOST_VALUES:
            raise ValueError(f"there are more than {MOST_VALUES:,} values")
        yield value
        value = value * by if grows else value + by


def _unit_of(text: str) -> tuple[Callable[[str], Fraction], Callable[[Fraction], str]]:
    """Reads and writes values like this one: a number, a rate, a size or a time."""
    kinds = ((Fraction, _number), (_rate, lambda value: f"{round(value)}bit"), (_size, _bytes), (_time, _duration))
    for read, write in kinds:
        try:
            read(text)
        except ValueError:
            continue
        return read, write
    raise ValueError(f"{text!r} is not a number, a size such as 64K, a rate such as 100Mbit, or a time such as 10ms")


def _number(value: Fraction) -> str:
    return f"{value.numerator}" if value.denominator == 1 else f"{float(value):.12g}"


def _rate(text: str) -> Fraction:
    return Fraction(parse_rate(text))


def _size(text: str) -> Fraction:
    return Fraction(parse_size(text))


def _time(text: str) -> Fraction:
    return Fraction(parse_duration(text))


def _duration(value: Fraction) -> str:
    time_ns = round(value)
    unit_ns, unit = next((ns, name) for ns, name in ((10**6, "ms"), (1000, "us"), (1, "ns")) if time_ns % ns == 0)
    return f"{time_ns // unit_ns}{unit}"


def _bytes(value: Fraction) -> str:
    size_bytes = round(value)
    return format_size(size_bytes).replace(" ", "") if size_bytes % 1024 == 0 else str(size_bytes)
