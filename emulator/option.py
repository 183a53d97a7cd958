"""An option is declared once, beside the field that it sets; help, texts, run specs, `--set`, `--vary`, pages follow.

A field of a run spec is `Annotated[type, setting("what it sets", …)]`. A field of a dataclass, such as the options of a
transport or the parameters of a synthetic workload, is `option("what it sets", …)`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from enum import Enum, auto
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta, Struct

from emulator.suggestions import did_you_mean
from emulator.units import parse_number, parse_rate, parse_size, parse_whole

_UNITS = {"s": "seconds"}
"""As error messages write them."""
TRUTH = {"on": True, "off": False, "true": True, "false": False, "yes": True, "no": False, "1": True, "0": False}
"""Texts of a switch."""
_FACTS = "option"


class Level(Enum):
    """Which help lists an option: `--help`, `--help-all`, or none: it is set with `--set`, and its flag is hidden."""

    COMMON = auto()
    FULL = auto()
    EXPERT = auto()


COMMON, EXPERT = Level.COMMON, Level.EXPERT


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionFacts:
    """What is declared of an option beside its field; its type and range are those of the field.

    Attributes:
        summary: what it sets, with its unit, in a few words.
        flags: as they are typed, `-n --ranks`; None: `--` and the name of the field. A word without dashes is a
            positional argument. "": there is none, only a run spec and `--set` set it.
        metavar: stands for the value; "": N, or the choices.
        group: title under which help lists it; None: that of the class.
        level: see there.
        read: text, or a scalar of a document as text, to the plain value; raises ValueError with what is needed. Of a
            list: an element. None: as the type says.
        choices: all texts there are, if the type does not say it.
        separator: between the elements of a list; "": the option is repeatable.
        least, most: range of a number, if the type does not say it.
        unit: bytes, bit/s, s or none: sizes and rates may be given as text with a unit.
        words: values that have a name.
        default: what holds if nobody sets it, which the record of a run then has; of some, a function of the section.
        unset: the same in words, where there is no such value; "": the default of the field.
        is_reserved: it names files or addresses of the machine that plays, or widens what traffic may reach: a service
            lets only administrators set it.
        locate: of a path: from the folder where a relative one starts, and the path, to the file.
    """

    summary: str
    flags: str | None = None
    metavar: str = ""
    group: str | None = None
    level: Level = Level.FULL
    read: Callable[[str], Any] | None = None
    choices: tuple[str, ...] = ()
    separator: str = ""
    least: int = 0
    most: int = 0
    unit: str = ""
    words: Mapping[str, int] = field(default_factory=dict)
    default: Any = None
    unset: str = ""
    is_reserved: bool = False
    locate: Callable[[Path, str], str] | None = None

    def text(self, default: object = None) -> str:
        """Summary and default, which is that of the field if it has one."""
        default = self.default if default is None else default
        is_shown = default is not None and not callable(default) and not isinstance(default, tuple | Mapping)
        words = self.unset or (str(plain_value(default)) if is_shown else "")
        return f"{self.summary} (default: {words})" if words else self.summary

    def parse(self, text: str) -> int:
        """A number from text; ValueError if it is not one."""
        if text in self.words:
            return self.words[text]
        if self.unit == "bit/s":
            return 0 if text == "0" else parse_rate(text)
        return parse_size(text) if self.unit == "bytes" and not self.choices else int(text)

    def spell(self, value: object) -> str:
        """Text that `parse` reads as this value."""
        words: dict[object, str] = {number: word for word, number in self.words.items()}
        return words.get(value) or (f"{value}bit" if self.unit == "bit/s" and value else str(value))

    @property
    def needed(self) -> str:
        """What text has to be, in words."""
        if self.unit == "bit/s":
            return f"give a rate with a unit, such as 10Gbit{', or off' if self.words else ''}"
        return "give a size, such as 512K" if self.unit == "bytes" and not self.choices else "give a whole number"


@dataclass(frozen=True, slots=True)
class Option:
    """An option as it is found beside a field.

    Attributes:
        path: of the field, as `network.transport.name`.
        kind: its type.
        default: of the field; None: none, or not specified.
        is_required: the field has no default.
        group: title under which help lists it.
        facts: what is declared of it.
    """

    path: str
    kind: Any
    default: Any
    is_required: bool
    group: str
    facts: OptionFacts

    @property
    def name(self) -> str:
        """The last part of its path."""
        return self.path.rpartition(".")[2]

    @property
    def flags(self) -> tuple[str, ...]:
        """As it is typed, the short one first; empty: it has no flag."""
        return (f"--{spelled(self.name)}",) if self.facts.flags is None else tuple(self.facts.flags.split())

    @property
    def is_positional(self) -> bool:
        """Whether it is given by its place."""
        return self.flags != () and not self.flags[0].startswith("-")

    @property
    def is_switch(self) -> bool:
        """Whether its flag takes no value, and sets the opposite of the default."""
        return isinstance(self.default, bool)

    @property
    def is_mapping(self) -> bool:
        """Whether its values are given as NAME=VALUE."""
        return any(get_origin(kind) is Mapping for kind, _ in _alternatives(self.kind))

    @property
    def is_list(self) -> bool:
        """Whether its value is a list, and nothing else."""
        return all(get_origin(kind) is tuple for kind, _ in _alternatives(self.kind))

    @property
    def is_repeatable(self) -> bool:
        """Whether it can be given several times."""
        return self.is_mapping or (self.is_list and not self.facts.separator)

    @property
    def choices(self) -> tuple[str, ...]:
        """All texts there are; empty: others too."""
        if self.facts.choices or self.facts.read is not None:
            return self.facts.choices
        kinds = [kind for kind, _ in _alternatives(self.kind)]
        return () if any(not _words(kind) for kind in kinds) else tuple(word for kind in kinds for word in _words(kind))

    @property
    def metavar(self) -> str | None:
        """Stands for the value; None: the choices do."""
        return self.facts.metavar or (None if self.choices else "N")

    @property
    def text(self) -> str:
        """Summary and default, for help."""
        if self.is_switch:
            return f"do not {self.facts.summary}" if self.default else self.facts.summary
        return self.facts.text(self.default)

    def read(self, text: str) -> Any:
        """The plain value that text stands for; of a repeatable option, an element of it.

        Raises:
            ValueError: none; the message says what is needed.
        """
        if self.is_list and self.facts.separator:
            return [self._read_one(one) for one in text.split(self.facts.separator)]
        return self._read_one(text)

    def _read_one(self, text: str) -> Any:
        if self.facts.read is not None:
            return self.facts.read(text)
        kinds = list(_alternatives(self.kind))
        for kind, _ in kinds:
            if kind is bool and text in TRUTH:
                return TRUTH[text]
            if text in _words(kind):
                return kind(text) if isinstance(kind, type) else text
        if self.choices and text not in self.choices:
            advice = did_you_mean(text, self.choices) or f"; choose from {', '.join(self.choices)}"
            raise ValueError(f"there is no {text[:40]!r}{advice}")
        kind, bounds = kinds[0]
        least: Any = None if bounds is None else bounds.ge
        most: Any = self.facts.most or (None if bounds is None else bounds.le)
        if kind is int:
            named = "".join(f", or {word}" for one, _ in kinds[1:] for word in _words(one))
            return parse_whole(text, least=least, most=most, named=named)
        if kind is float:
            unit, lowest = _UNITS.get(self.facts.unit, ""), -math.inf if bounds is None else 0.0
            return parse_number(text, unit=unit, least=least or lowest, most=most or math.inf)
        return kind(text) if isinstance(kind, type) else text


def setting(summary: str, metavar: str = "", level: Level = Level.FULL, **facts: Any) -> Meta:
    """Declares a field of a run spec: `Annotated[type, setting(…)]`. Arguments: as of OptionFacts."""
    declared = OptionFacts(summary=summary, metavar=metavar, level=level, **facts)
    return Meta(description=declared.text(), extra={_FACTS: declared})


def option(summary: str, *, default: Any = MISSING, **facts: Any) -> Any:
    """A field of a dataclass; without a default it must be given. `facts`: as of OptionFacts."""
    return field(default=default, metadata={_FACTS: OptionFacts(summary=summary, **facts)})


def options_of(kind: type, prefix: str = "") -> tuple[Option, ...]:
    """The fields that are declared as options, in order, those of the sections in it included.

    Args:
        kind: a dataclass, or a section of a document.
        prefix: begins their paths.
    """
    return _found(kind, prefix)


@cache
def _found(kind: type, prefix: str) -> tuple[Option, ...]:
    return tuple(_find(kind, prefix))


def _find(kind: Any, prefix: str) -> Iterator[Option]:
    hints = get_type_hints(kind, include_extras=True)
    declared = fields(kind) if is_dataclass(kind) else msgspec.structs.fields(kind)
    for one in declared:
        hint, facts = hints[one.name], getattr(one, "metadata", {}).get(_FACTS)
        for meta in getattr(hint, "__metadata__", ()):
            facts = meta.extra[_FACTS] if meta.extra else facts
        if facts is not None:
            is_required = {one.default, one.default_factory} <= {MISSING, msgspec.NODEFAULT}
            group = getattr(kind, "GROUP", "settings") if facts.group is None else facts.group
            default = None if one.default in (MISSING, msgspec.NODEFAULT) else one.default
            yield Option(prefix + one.name, hint, default, is_required, group, facts)
        else:
            for inner, _ in _alternatives(hint):
                if isinstance(inner, type) and issubclass(inner, Struct):
                    yield from options_of(inner, f"{prefix}{one.name}.")


def _alternatives(hint: Any, bounds: Meta | None = None) -> Iterator[tuple[Any, Meta | None]]:
    """The types that a value may have, each with its range; `None` is left out."""
    if get_origin(hint) is Annotated:
        yield from _alternatives(hint.__origin__, hint.__metadata__[0])
    elif get_origin(hint) in (Union, UnionType):
        for one in get_args(hint):
            yield from _alternatives(one)
    elif hint is not NoneType:
        yield hint, bounds


def _words(kind: Any) -> tuple[str, ...]:
    """All texts of a type that has no others."""
    if get_origin(kind) is Literal:
        return tuple(map(str, get_args(kind)))
    if kind is bool:
        return ("on", "off")
    return tuple(str(one.value) for one in kind) if isinstance(kind, type) and issubclass(kind, Enum) else ()


def spelled(name: str) -> str:
    """A field as the command line spells it, without a unit that its value has: `rate_cap_bps` is `rate-cap`."""
    return name.removesuffix("_bps").removesuffix("_s").replace("_", "-")


def plain_value(value: object) -> int | str:
    """A value of an option as people write it."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, Enum):
        return str(value.value)
    return value if isinstance(value, int) else str(value)
