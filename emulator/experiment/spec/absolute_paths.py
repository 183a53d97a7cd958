"""A run spec with absolute paths: as it is stored, so that it can be played again from any working directory."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from emulator.experiment.spec.spec import FILES_OF_AGENTS, Experiment, Job
from emulator.results.verdict.rules import EXAMPLE
from emulator.shipped import TOPOLOGIES, TRACES

_FILES_OF_OBSERVE = {False: ("calibration", "expect"), True: ("calibration",)}
"""Paths of that section, by whether `expect` is the name of shipped rules."""
S = TypeVar("S", bound=msgspec.Struct)


def with_absolute_paths(experiment: Experiment) -> Experiment:
    """What can be played from any working directory: paths are absolute, and it belongs to no campaign."""
    network = experiment.network
    if network.topology is not None:
        network = replace(network, topology=str(TOPOLOGIES.find(network.topology)))
    return replace(
        experiment,
        jobs=tuple(map(_absolute_trace, experiment.jobs)),
        campaign=None,
        network=_absolute(network, "topology"),
        agents=_absolute(experiment.agents, *FILES_OF_AGENTS),
        observe=_absolute(experiment.observe, *_FILES_OF_OBSERVE[experiment.observe.expect == EXAMPLE]),
    )


def _absolute_trace(job: Job) -> Job:
    if job.trace is None:
        return job
    trace = replace(job.trace, path=str(TRACES.find(job.trace.path)))
    return replace(job, trace=_absolute(trace, "path", "groups"))


def _absolute(section: S, *names: str) -> S:
    paths = {name: str(Path(path).absolute()) for name in names if (path := getattr(section, name)) is not None}
    return replace(section, **paths)
