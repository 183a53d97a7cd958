"""The points of a sweep: every combination of the values of its axes, as a run spec of its own."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from emulator.errors import HostError, InputError
from emulator.experiment.play.play import prepare
from emulator.experiment.play.session import check_session, load_jobs
from emulator.experiment.series.campaign import in_turns
from emulator.experiment.series.settings import START, with_setting
from emulator.experiment.series.sweep.axis import MOST_VALUES, Axis
from emulator.experiment.series.turns import Play, Turn
from emulator.experiment.settle.workload import LatestJob
from emulator.experiment.spec.spec import AUTO, Experiment
from emulator.results.run_folder.reader import Run
from emulator.results.run_folder.session import StoredSession
from emulator.results.verdict.rules import load_rules
from emulator.schema import SchemaProblem

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
class Sweep:
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


def make_sweep(experiment: Experiment, axes: Sequence[Axis]) -> Sweep:
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
    return Sweep(axes, points, repeat)


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

    def play_turn(experiment: Experiment, folder: Path, *, solo: bool = False) -> Run | StoredSession:
        shared = apart_from_starts(experiment)
        played = play(experiment, folder, solo=len(experiment.jobs) > 1 and shared not in alone)
        alone.add(shared)
        return played

    return play_turn


def apart_from_starts(experiment: Experiment) -> str:
    """What sessions have in common in which the jobs only meet at other times: their jobs take as long alone."""
    jobs = tuple(replace(job, start=None) for job in experiment.jobs)
    return json.dumps(replace(experiment, jobs=jobs).to_plain(), sort_keys=True)


def check_points(sweep: Sweep, jobs: LatestJob, *, on_step: Callable[[str], None] = lambda _: None) -> None:
    """Settle every point as a run does, but for its traffic.

    Args:
        sweep: to play.
        jobs: loads the job of every point.
        on_step: receives the current step, for a status line.

    Raises:
        InputError, HostError: a point cannot be played; the message names it.
    """
    for number, point in enumerate(sweep.points, 1):
        on_step(f"checking point {number} of {len(sweep.points)}: {point}")
        try:
            if point.experiment.observe.expect is not None:
                load_rules(point.experiment.observe.expect)
            if len(point.experiment.jobs) > 1:
                _check_session(point)
            else:
                with prepare(point.experiment, jobs.load(point.experiment.job)):
                    pass
        except (InputError, HostError) as error:
            kind = InputError if isinstance(error, InputError) else HostError
            raise kind(f"point {point}: {error}") from error


def _check_session(point: Point) -> None:
    if START in point.settings:
        for job in point.experiment.jobs:
            if job.pace != CONTINUOUS:
                raise InputError(
                    f"job {job.name} needs `pace: {CONTINUOUS}`: with a barrier, the gaps between iterations move the "
                    "jobs against each other"
                )
    with load_jobs(point.experiment) as loaded:
        check_session(point.experiment, loaded)


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
