"""The settings of a run spec that sweeps vary and suites set: found by a short name where only one has it."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import yaml
from msgspec import Struct

from emulator.errors import InputError
from emulator.experiment.spec.flow_spec import PerftestFlow
from emulator.experiment.spec.spec import (
    Agents,
    Device,
    Experiment,
    Job,
    Network,
    Observe,
    PairSweep,
    Sweep,
    Trace,
    Transport,
)
from emulator.schema import SchemaProblem, decode
from emulator.suggestions import did_you_mean
from emulator.trace.meaning.collective_names import COLLECTIVES
from emulator.transports.registry import REGISTRY

_WORKLOADS: Mapping[str, type[Struct]] = {"trace": Trace, "sweep": Sweep, "pair_sweep": PairSweep}
_SECTIONS: Mapping[str, type[Struct]] = {
    "job": Job,
    "network": Network,
    "network.transport": Transport,
    "device": Device,
    "agents": Agents,
    "observe": Observe,
}
_NOT_VARIED = {"charkha", "jobs", "flows", "campaign", "name", "kind", "transport", "options", "algorithms", "pairs"}
"""Keys that hold sections, or that name things."""
_UNITS = ("_bytes", "_bps", "_s")
"""Ends of keys that a short name leaves out."""
_SIZES = "job.sweep.sizes"
START = "job.start"
"""Of several jobs, that of the last one."""
_OTHER_NAMES = {_SIZES: "size", "network.transport.name": "transport", "network.allow_networks": "allow_network"}
"""What the command line calls them."""
_LISTS = (_SIZES, "network.allow_networks")


def find_setting(name: str, experiment: Experiment, *, option: str = "--vary") -> str:
    """The path of a setting in a run spec, as `network.transport.options.qps`.

    Args:
        name: the whole path, its end as `transport.name`, or its last key, without the unit if that is clear: `qps`,
            `window`, `path-mtu`, `size`.
        experiment: the run spec; settings of sections that it does not have are not found.
        option: that names the setting, for errors.

    Raises:
        InputError: no setting, or more than one, has this name.
    """
    wanted, paths = name.strip().lower().replace("-", "_"), list(_paths(experiment))
    for is_meant in (_is_path, _is_end, _is_short):
        found = [path for path in paths if is_meant(path, wanted)]
        if len(found) > 1:
            raise InputError(f"{option} {name}: is short for {' and '.join(found)}: write more of the name")
        if found:
            return found[0]
    known = sorted({short for path in paths for short in _short_names(path)} | set(paths))
    raise InputError(f"{option} {name}: this run spec has no such setting{did_you_mean(wanted, known)}")


def with_setting(experiment: Experiment, path: str, text: str) -> Experiment:
    """The run spec with one setting changed.

    Raises:
        SchemaProblem: the value does not fit.
    """
    plain = copy.deepcopy(experiment.to_plain())
    target: Any = plain
    *sections, key = _steps(path, experiment)
    for section in sections:
        target = target[section] if isinstance(section, int) else target.setdefault(section, {})
    if path == _SIZES:  # in place of a range
        for other in ("min_bytes", "max_bytes", "factor", "step_bytes"):
            target.pop(other, None)
    value = text if "options" in sections else _scalar(text)
    target[key] = [value] if path in _LISTS else value
    try:
        return decode(plain, Experiment)
    except SchemaProblem as problem:
        raise SchemaProblem((), problem.problem) from problem


def _scalar(text: str) -> Any:
    """Text as a scalar of a YAML file, because that is how the same setting is written there."""
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        return text
    return value if isinstance(value, str | int | float | bool) else text


def _steps(path: str, experiment: Experiment) -> list[str | int]:
    """Keys and indices: `job` is the only one of `jobs`, or the last one, whose start can vary."""
    parts = path.replace("[", ".").replace("]", "").split(".")
    steps: list[str | int] = [int(part) if part.isdecimal() else part for part in parts]
    return ["jobs", len(experiment.jobs) - 1, *steps[1:]] if steps[0] == "job" else steps


def _paths(experiment: Experiment) -> Iterator[str]:
    """Of every setting that can vary: of several jobs, how they meet, not what one of them plays."""
    yield from _fields("", Experiment)
    for section, kind in _SECTIONS.items():
        if section != "job":
            yield from _fields(f"{section}.", kind)
    yield from _job_paths(experiment.job) if len(experiment.jobs) == 1 else (START,)
    options = {field.name for one in REGISTRY.values() if one.options for field in dataclasses.fields(one.options)}
    yield from (f"network.transport.options.{name}" for name in sorted(options))
    for at in range(len(experiment.flows)):
        yield from _fields(f"flows[{at}].", PerftestFlow)


def _job_paths(job: Job) -> Iterator[str]:
    yield from _fields("job.", Job)
    for workload, kind in _WORKLOADS.items():
        if getattr(job, workload) is not None:
            yield from _fields(f"job.{workload}.", kind)
    yield from (f"job.algorithms.{collective}" for collective in COLLECTIVES)


def _fields(prefix: str, kind: type[Struct]) -> Iterator[str]:
    sections = {*_NOT_VARIED, *_WORKLOADS, *_SECTIONS} - ({"name"} if prefix == "network.transport." else set())
    yield from (prefix + name for name in kind.__struct_fields__ if name not in sections)


def _is_path(path: str, wanted: str) -> bool:
    return path == wanted


def _is_end(path: str, wanted: str) -> bool:
    return path.endswith(f".{wanted}")


def _is_short(path: str, wanted: str) -> bool:
    return wanted in _short_names(path)


def _short_names(path: str) -> set[str]:
    key = path.rpartition(".")[2]
    return {key, _OTHER_NAMES.get(path, key), *(key.removesuffix(unit) for unit in _UNITS)}
