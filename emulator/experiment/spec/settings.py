"""All settings of a run spec, as the command line, sweeps and suites name them: by a path, or a short name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from emulator.errors import InputError
from emulator.experiment.spec.flow_spec import PerftestFlow
from emulator.experiment.spec.parts import Part, build_experiment, merge, part_of
from emulator.experiment.spec.spec import Experiment, Job
from emulator.option import Option, options_of
from emulator.roce.options import check_option
from emulator.schema import SchemaProblem
from emulator.suggestions import did_you_mean
from emulator.trace.meaning.names import COLLECTIVES
from emulator.transports.registry import REGISTRY

WORKLOADS = ("job.trace", "job.sweep", "job.pair_sweep")
ALGORITHMS = "job.algorithms"
_SIZES = "job.sweep.sizes"
_RANGE = ("min_bytes", "max_bytes", "factor", "step_bytes")
START = "job.start"
"""Of several jobs, that of the last one."""
_NO_RUN = ("jobs", "background", "campaign")
"""What makes several runs of one, or adds to it, is no setting that varies."""
_LISTED = "; `charkha help settings` lists them"
_UNITS = ("_bytes", "_bps", "_s")
"""Ends of keys that a short name leaves out."""


def _transport_options() -> Iterator[Option]:
    known: set[str] = set()
    for kind in (facts.options for facts in REGISTRY.values() if facts.options is not None):
        for one in options_of(kind, "network.transport.options."):
            if one.name not in known:
                read = partial(check_option, one.name, kind=kind)
                yield replace(one, facts=replace(one.facts, read=read, choices=one.choices))
            known.add(one.name)


SETTINGS: tuple[Option, ...] = (
    *(one for one in options_of(Job, "job.") if not one.path.startswith("job.transport.")),
    *options_of(Experiment),
    *_transport_options(),
)


def is_below(path: str, place: str) -> bool:
    """Whether a setting is that of this path, or in the section of it."""
    return path == place or path.startswith(f"{place}.")


def section_at(experiment: Experiment, path: str) -> Any:
    """The section of a run spec that has the setting of this path; None if it has no such section."""
    section: Any = experiment
    for name in path.split(".")[:-1]:
        section = getattr(section, name, None)
    return section


def is_set(experiment: Experiment, one: Option) -> bool:
    """Whether a run spec sets it to another value than its default, in the first job if it is of a job."""
    section = section_at(experiment, one.path)
    return section is not None and getattr(section, one.name) != one.default


def find_setting(name: str, experiment: Experiment, *, option: str = "--vary") -> str:
    """The path of a setting in a run spec, as `network.transport.options.qps`.

    Args:
        name: the whole path, its end as `transport.name`, its last key, without the unit if that is clear: `qps`,
            `window`, `path-mtu`; or as the command line calls it.
        experiment: the run spec; settings of sections that it does not have are not found.
        option: that names the setting, for errors.

    Raises:
        InputError: no setting, or more than one, has this name.
    """
    wanted, settings = name.strip().lower().replace("-", "_"), _settings_of(experiment)
    for found in (
        [path for path in settings if path == wanted],
        [path for path in settings if path.endswith(f".{wanted}")],
        [path for path, one in settings.items() if wanted in _short_names(path, one)],
    ):
        if len(found) > 1:
            raise InputError(f"{option} {name}: is short for {' and '.join(found)}: write more of the name")
        if found:
            return found[0]
    known = sorted({short for path, one in settings.items() for short in _short_names(path, one)} | set(settings))
    raise InputError(f"{option} {name}: this run spec has no such setting{did_you_mean(wanted, known) or _LISTED}")


def with_setting(experiment: Experiment, path: str, text: str) -> Experiment:
    """The run spec with one setting changed; of several jobs, in each of them.

    Raises:
        SchemaProblem: the value does not fit.
    """
    setting, part = _settings_of(experiment)[path], part_of(experiment)
    try:
        value = setting.read(text)
    except ValueError as error:
        raise SchemaProblem((), str(error)) from error
    value = [value] if setting.is_repeatable and setting.is_list else value
    *sections, key = path.replace("[", ".").replace("]", "").split(".")
    if path == _SIZES:  # in place of a range
        part["job"]["sweep"] = {one: given for one, given in part["job"]["sweep"].items() if one not in _RANGE}
    if sections[:1] == ["flows"]:
        part["flows"][int(sections[1])][key] = value
    elif path == START and "jobs" in part:
        part["jobs"][-1][key] = value
    else:
        over: Part = {key: value}
        for section in reversed(sections):
            over = {section: over}
        part = merge(part, over)
    try:
        return build_experiment(part)
    except SchemaProblem as problem:
        raise SchemaProblem((), problem.problem) from problem


def with_settings(experiment: Experiment, settings: Iterable[tuple[str, str]]) -> Experiment:
    """The run spec with settings changed that `--set NAME=VALUE` names.

    Raises:
        InputError: it has no such setting, or not with this value.
    """
    for name, text in settings:
        try:
            experiment = with_setting(experiment, find_setting(name, experiment, option="--set"), text)
        except SchemaProblem as problem:
            raise InputError(f"--set {name}={text}: {problem}") from problem
    return experiment


def parse_setting(text: str) -> tuple[str, str]:
    """Name and value of a setting.

    Raises:
        ValueError: not of the form NAME=VALUE.
    """
    name, equals, value = text.partition("=")
    if not name or not equals or not value:
        raise ValueError(f"{text!r}: write NAME=VALUE")
    return name, value


def _settings_of(experiment: Experiment) -> Mapping[str, Option]:
    """Path → setting: those that this run spec has."""
    has_one = len(experiment.jobs) == 1
    absent = [one for one in WORKLOADS if not has_one or getattr(experiment.job, one.removeprefix("job.")) is None]
    found = {one.path: one for one in SETTINGS if not any(is_below(one.path, place) for place in (*absent, *_NO_RUN))}
    algorithm = found.pop(ALGORITHMS)
    found |= {f"{ALGORITHMS}.{name}": replace(algorithm, kind=str) for name in COLLECTIVES}
    for at in range(len(experiment.flows)):
        found |= {one.path: one for one in options_of(PerftestFlow, f"flows[{at}].")}
    return found


def _short_names(path: str, one: Option) -> set[str]:
    """The last key, without its unit, and what the command line calls it."""
    key = path.rpartition(".")[2]
    found = {key, *(key.removesuffix(unit) for unit in _UNITS)}
    if one.path != path or one.is_switch:
        return found
    flags = {flag.lstrip("-").replace("-", "_") for flag in one.flags if flag.startswith("--")}
    return found | flags | {flag.removesuffix("s") for flag in flags if one.is_list}
