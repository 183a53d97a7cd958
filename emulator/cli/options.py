"""Which settings of a run spec are options of which command; from them to a parser, and from arguments to fields.

Nothing is derived here: an option that is not given leaves its field unset.
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from emulator.cli.parser import HelpGroup, Parser, argument
from emulator.errors import EventError, InputError
from emulator.experiment.spec.parts import Part, build_experiment, merge, part_of
from emulator.experiment.spec.settings import SETTINGS, WORKLOADS, is_below, parse_setting, with_settings
from emulator.experiment.spec.spec import Experiment
from emulator.option import Level, Option
from emulator.schema import SchemaProblem, format_path


def add_options(parser: Parser, options: Iterable[Option], *, with_set: Level | None = None) -> None:
    """Add all options that have a flag, under the titles of their groups; one without a title is the parser's own.

    Args:
        parser: it.
        options: what is declared of them.
        with_set: level of `--set`, which then stands for the options of experts: their own flags are hidden. None: the
            command has no `--set`.
    """
    groups: dict[str, Parser | HelpGroup] = {"": parser}
    for one in options:
        if one.flags:
            if one.group not in groups:
                groups[one.group] = parser.add_argument_group(one.group)
            _add(groups[one.group], one, is_hidden=with_set is not None and one.facts.level is Level.EXPERT)
    if with_set is not None:
        parser.add_argument(
            "--set",
            metavar="NAME=VALUE",
            action="append",
            default=[],
            type=argument(parse_setting),
            advanced=with_set is not Level.COMMON,
            help="any other setting, such as qp_timeout=nccl: `charkha help settings` (repeatable)",
        )


def _add(group: Parser | HelpGroup, one: Option, *, is_hidden: bool) -> None:
    how: dict[str, Any] = {"help": one.text, "metavar": one.metavar, "default": None, "dest": one.path}
    if one.is_switch:
        how |= {"action": "store_const", "const": not one.default}
        del how["metavar"]
    elif one.is_mapping:
        how |= {"action": "append", "type": argument(one.facts.read or parse_setting)}
    elif one.is_repeatable:
        how |= {"action": "append", "type": argument(one.read)}
    else:
        how |= {"choices": one.choices} if one.choices else {"type": argument(one.read)}
    if one.is_positional:
        del how["dest"]
        group.add_argument(one.path, **(how if one.is_required else how | {"nargs": "?"}))
        return
    if is_hidden:
        how["help"] = argparse.SUPPRESS
    is_advanced = one.facts.level is not Level.COMMON and not is_hidden
    group.add_argument(*one.flags, required=one.is_required and not one.is_repeatable, advanced=is_advanced, **how)


def given(args: argparse.Namespace, options: Iterable[Option]) -> Part:
    """What was given, as plain values by path: `job.iterations` is `iterations` in `job`."""
    part: Part = {}
    for one in options:
        value = getattr(args, one.path, None)
        if value is not None:
            value = dict(value) if one.is_mapping else one.read(value) if one.choices and not one.is_switch else value
            *sections, key = one.path.split(".")
            place = part
            for section in sections:
                place = place.setdefault(section, {})
            place[key] = value
    return part


def build(part: Mapping[str, Any], options: Iterable[Option], args: argparse.Namespace | None = None) -> Experiment:
    """A run spec from its parts; `--set` of the arguments comes last.

    Raises:
        InputError: a value does not fit; it names the option.
    """
    try:
        experiment = build_experiment(part)
    except SchemaProblem as problem:
        raise InputError(f"{_flag(problem.path, options)}{problem.problem}") from problem
    return with_settings(experiment, getattr(args, "set", ()))


def _flag(path: Sequence[str | int], options: Iterable[Option]) -> str:
    """The option that sets a value of a run spec, as the beginning of an error."""
    name = ".".join(map(str, path))
    for one in options:
        if one.path == name and one.flags and not one.is_positional:
            return f"{one.flags[-1]}: "
    return f"{format_path(tuple(path))}: " if path else ""


TITLES = ("", "play", "network")
"""Groups that help lists first."""
_OF_TRACES = ("job.compute", "job.pace", "jobs")
"""Settings that a collective alone has not."""


def options_at(*places: str) -> list[Option]:
    """The options of these paths, and of sections at them, in this order."""
    return [one for place in places for one in SETTINGS if is_below(one.path, place)]


def play_options(workload: str) -> list[Option]:
    """Everything that playing a workload takes, as `job.trace`."""
    left_out = {*WORKLOADS, *(() if workload == "job.trace" else _OF_TRACES)} - {workload}
    options = [one for one in SETTINGS if not any(is_below(one.path, place) for place in left_out)]
    return sorted(options, key=lambda one: one.group not in TITLES)


def changed(options: Sequence[Option], path: str, *, is_required: bool | None = None, **facts: Any) -> list[Option]:
    """The options, with the one at a path as one command has it: other facts, or not required."""
    return [
        replace(
            one,
            facts=replace(one.facts, **facts),
            is_required=one.is_required if is_required is None else is_required,
        )
        if one.path == path
        else one
        for one in options
    ]


TRACE = options_at("job.trace")
"""TRACE and the options of reading one."""
OPTIONAL_TRACE = changed(TRACE, "job.trace.path", is_required=False)
SOURCE_TRACE = changed(TRACE, "job.trace.path", summary="a trace, as in `charkha run`", metavar="SRC")


def add_spec_file(parser: Parser) -> None:
    """Add `-f FILE`, for commands that look at a run without playing it."""
    parser.add_argument("-f", "--file", metavar="FILE", type=Path, help="the run spec in a YAML file, with its flows")


@contextlib.contextmanager
def naming_events(file: Path | None) -> Iterator[None]:
    """What is wrong with an event gets the line of the file of the run spec; None: it has none.

    Raises:
        InputError: an event cannot be used.
    """
    try:
        yield
    except EventError as error:
        if file is None:
            raise
        from emulator.topology.document import read_document  # loads the reader of YAML

        raise read_document(file).error(error.problem, ("events", error.number, *filter(None, [error.key]))) from error


def experiment_of_file(args: argparse.Namespace, part: Mapping[str, Any], options: Sequence[Option]) -> Experiment:
    """The run spec in the file; options override it.

    Raises:
        InputError: it cannot be read, has several jobs, or a value does not fit.
    """
    from emulator.experiment.spec.document import read_experiment  # a command without -f starts sooner

    whole = read_experiment(args.file)
    if len(whole.jobs) > 1:
        raise InputError(f"{args.file}: has {len(whole.jobs)} jobs; give a run spec with one of them")
    return build(merge(part_of(whole), part), options, args)
