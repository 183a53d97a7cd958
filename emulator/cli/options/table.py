"""Options as a table: every option names the part of a run spec that it sets.

The table builds the parser and turns parsed arguments into a run spec. Nothing is derived here: an option that is not
given leaves its part of the run spec unset.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

from emulator.cli.options.converters import argument
from emulator.cli.parser import HelpGroup, Parser
from emulator.errors import InputError
from emulator.experiment.spec.parts import build_experiment
from emulator.experiment.spec.spec import Experiment
from emulator.schema import SchemaProblem, format_path

Plain = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Option:
    """An option of the command line.

    Attributes:
        words: its flags, as `-n --ranks`; a positional argument has its name without dashes.
        path: of the value in a run spec, as `network.topology`; `job` is its one job.
        help: what it sets, in a few words.
        metavar: stands for the value.
        read: text → plain value of the run spec; raises ValueError with what is needed.
        choices: all texts there are; empty: any that `read` takes.
        constant: the option takes no value and sets this.
        is_list: repeatable; values form a list.
        is_mapping: repeatable NAME=VALUE; values form a mapping.
        lone_name: of a mapping: the name of a value that is given without one; None: it needs one.
        is_required: it must be given.
        is_common: `--help` lists it; all others are listed by `--help-all`.
        nargs: "?" for a positional argument that can be left out.
    """

    words: str
    path: str
    help: str
    _: KW_ONLY
    metavar: str | None = None
    read: Callable[[str], Any] = str
    choices: tuple[str, ...] = ()
    constant: Any = None
    is_list: bool = False
    is_mapping: bool = False
    lone_name: str | None = None
    is_required: bool = False
    is_common: bool = False
    nargs: str | None = None

    @property
    def flags(self) -> list[str]:
        """Its words, the short one first."""
        return self.words.split()

    @property
    def is_positional(self) -> bool:
        """Whether it is given by its place."""
        return not self.flags[0].startswith("-")

    def add_to(self, group: Parser | HelpGroup) -> None:
        """Add it to a parser or a group of one."""
        how: Plain = {"help": self.help, "metavar": self.metavar, "default": None}
        if self.constant is not None:
            how = {"help": self.help, "action": "store_const", "const": self.constant, "default": None}
        elif self.choices:
            how |= {"choices": self.choices}
        elif self.is_list or self.is_mapping:
            how |= {"action": "append", "type": argument(self._split if self.is_mapping else self.read)}
        else:
            how |= {"type": argument(self.read)}
        if self.is_positional:
            group.add_argument(self.path, **(how | ({"nargs": self.nargs} if self.nargs else {})))
        else:
            group.add_argument(
                *self.flags, dest=self.path, required=self.is_required, advanced=not self.is_common, **how
            )

    def _split(self, text: str) -> tuple[str, str]:
        name, equals, value = text.partition("=")
        if not equals and text and self.lone_name is not None:
            return self.lone_name, text
        if not equals or not name or not value:
            raise ValueError(f"{text!r}: write NAME=VALUE")
        return name, value

    def value(self, args: argparse.Namespace) -> Any:
        """What was given, as a plain value of the run spec; None if it was not given."""
        given = getattr(args, self.path, None)
        if given is not None and self.is_mapping:
            return dict(given)
        return self.read(given) if given is not None and self.choices else given


@dataclass(frozen=True, slots=True)
class OptionGroup:
    """Options under one title."""

    title: str
    options: Sequence[Option]


def add_options(parser: Parser, groups: Iterable[OptionGroup]) -> None:
    """Add all options, under their titles."""
    for group in groups:
        target = parser.add_argument_group(group.title) if group.title else parser
        for option in group.options:
            option.add_to(target)


def spec_part(args: argparse.Namespace, groups: Iterable[OptionGroup]) -> Plain:
    """What was given, as a part of a run spec in plain values; `job` stands for its one job."""
    part: Plain = {}
    for option in _options(groups):
        value = option.value(args)
        if value is not None:
            _set(part, option.path.split("."), value)
    return part


def build(part: Mapping[str, Any], groups: Iterable[OptionGroup]) -> Experiment:
    """A run spec from its parts.

    Raises:
        InputError: a value does not fit; it names the option.
    """
    try:
        return build_experiment(part)
    except SchemaProblem as problem:
        raise InputError(f"{_flag(problem.path, groups)}{problem.problem}") from problem


def _options(groups: Iterable[OptionGroup]) -> Iterator[Option]:
    return (option for group in groups for option in group.options)


def _flag(path: Sequence[str | int], groups: Iterable[OptionGroup]) -> str:
    """The option that sets a value of a run spec, as the beginning of an error."""
    name = ".".join(map(str, path))
    for option in _options(groups):
        if option.path == name and not option.is_positional:
            return f"{option.flags[-1]}: "
    return f"{format_path(tuple(path))}: " if path else ""


def _set(part: Plain, keys: Sequence[str], value: Any) -> None:
    for key in keys[:-1]:
        part = part.setdefault(key, {})
    part[keys[-1]] = value
