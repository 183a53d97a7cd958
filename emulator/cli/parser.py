"""The argument parser of every command: a short `--help`, everything behind `--help-all`, usage errors in one line.

Options are common unless they are added with `advanced=True` or to a group from `add_advanced_group`. `--help` lists
the common ones; `--help-all` lists all of them in their groups. The first paragraph of an epilog is the example, which
both show.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import Any, NoReturn, TypeAlias, TypeVar

from emulator.errors import InputError
from emulator.removed import REMOVED_WORDS
from emulator.suggestions import did_you_mean
from emulator.units import LARGEST_COUNT, parse_whole

Subparsers: TypeAlias = "argparse._SubParsersAction[Parser]"
"""What `add_subparsers` returns; argparse has no public name for it."""

_OPTION = re.compile(r"-(?!\d+$|\d*\.\d+$)\S+$")
"""A word that can only be an option: not a negative number, not a text with spaces."""
_GLOBAL = ("--log-level", "--version")


class Parser(argparse.ArgumentParser):
    """An `argparse.ArgumentParser` with two levels of help.

    Texts are shown as written. Options cannot be abbreviated: an abbreviation would change its meaning when a later
    version adds an option.
    """

    hints: Mapping[str, str] = {}
    """Options of other tools that a command does not have → what to write, as the end of the error."""
    elsewhere: Mapping[str, str] = {}
    """Words that are commands, but not here → the words of that command."""
    unlisted: Collection[str] = ()
    """Words of old that still are commands here, and that an error does not offer."""

    def __init__(self, **settings: Any) -> None:
        self._advanced: list[argparse.Action] = []
        settings.setdefault("formatter_class", _Formatter)
        super().__init__(**settings, allow_abbrev=False, add_help=False)
        self._positionals.title = "arguments"
        self.add_argument("-h", "--help", action="help", help=argparse.SUPPRESS)
        self.add_argument("--help-all", action=_FullHelp, help=argparse.SUPPRESS)

    def add_argument(self, *names: str, advanced: bool = False, **settings: Any) -> argparse.Action:
        """As in argparse; an `advanced` option is listed by `--help-all` only."""
        return self._sorted(super().add_argument(*names, **settings), advanced=advanced)

    def add_argument_group(self, title: str | None = None, *_: object, **settings: Any) -> HelpGroup:
        """A group of common options."""
        return self._add_group(HelpGroup(self, title, advanced=False, **settings))

    def add_advanced_group(self, title: str, **settings: Any) -> HelpGroup:
        """A group of options that `--help-all` lists."""
        return self._add_group(HelpGroup(self, title, advanced=True, **settings))

    def add_explain(self, *tables: str, advanced: bool = False, after: str = "") -> None:
        """Add `--explain`, which prints what every column means and ends.

        Args:
            tables: modules of emulator.views.terminal, or full names, that have `EXPLAIN`; they are loaded on demand.
            advanced: list the option in `--help-all` only.
            after: name of an argument: after it the option sets `explain` instead, and the command explains figures.
        """
        text = "print what every column means and exit"
        if after:
            text += f"; after {after.upper()}: what the uncertainty of its figures is made of"
        action = _ExplainFigures if after else _Explain
        self.add_argument("--explain", action=action, const=tables, metavar=after, advanced=advanced, help=text)

    def format_help(self) -> str:
        """What `--help` shows: the common options and the example."""
        return self._format(is_full=not self._advanced)

    def format_full_help(self) -> str:
        """What `--help-all` shows: every option in its group, and the whole epilog."""
        return self._format(is_full=True)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As in argparse, but words that are not known are refused here, so that the error names the command."""
        words = sys.argv[1:] if args is None else list(args)
        self._refuse_unknown_options(words)
        found, rest = super().parse_known_args(words, namespace)
        for word in rest:
            if word != "--":
                self.error(f"unexpected argument {word!r}")
        return found, rest

    def error(self, message: str) -> NoReturn:
        """Refuse the command line.

        Raises:
            InputError: always.
        """
        raise InputError(f"{message} (see `{self.prog} --help`)")

    def _refuse_unknown_options(self, words: Sequence[str]) -> None:
        """Name a misspelt option before argparse names what is missing because of it."""
        hands_on = any(action.nargs in (argparse.PARSER, argparse.REMAINDER) for action in self._actions)
        for word in words:
            if word == "--" or (hands_on and not word.startswith("-")):
                return
            name = word.partition("=")[0]
            is_known = name in self._option_string_actions or word[:2] in self._option_string_actions
            if name in _GLOBAL and not is_known:
                self.error(f"{name} goes before the command: {self.prog.split()[0]} {name} …")
            if _OPTION.match(word) and not is_known:
                if removed := self._removed(name):
                    self.error(removed)
                hint = self.hints.get(name) or did_you_mean(name, self._option_string_actions)
                self.error(f"unknown option {name!r}{hint}")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            if removed := self._removed(value):
                self.error(removed)
            choices = [str(one) for one in action.choices if one not in self.unlisted]
            words = self.elsewhere if isinstance(action, argparse._SubParsersAction) else {}
            if " " in self.prog:  # the command after this one's name would not be there
                words = {word: f"{self.prog.split()[0]} {path}" for word, path in words.items()}
            advice = did_you_mean(str(value), [*choices, *words], shown=words) or f"; choose from {', '.join(choices)}"
            raise argparse.ArgumentError(action, f"there is no {value!r}{advice}")

    def _removed(self, word: str) -> str | None:
        return REMOVED_WORDS.get(f"{self.prog.split()[-1]} {word}")

    def _sorted(self, action: argparse.Action, *, advanced: bool) -> argparse.Action:
        if advanced:
            self._advanced.append(action)
        return action

    def _add_group(self, group: HelpGroup) -> HelpGroup:
        self._action_groups.append(group)
        return group

    def _format(self, *, is_full: bool) -> str:
        formatter = self._get_formatter()
        formatter.add_text(self._short_usage())
        formatter.add_text(self.description)
        for title, actions in self._groups() if is_full else self._common():
            formatter.start_section(title)
            formatter.add_arguments(actions)
            formatter.end_section()
        epilog = self.epilog or ""
        formatter.add_text(epilog if is_full else epilog.partition("\n\n")[0])
        if not is_full:
            count = len(self._advanced)
            formatter.add_text(f"{self.prog} --help-all shows {count} more option{'s' * (count > 1)}")
        return formatter.format_help()

    def _short_usage(self) -> str:
        """The arguments that must be given, in one line."""
        formatter = self._get_formatter()
        given = [action for action in self._actions if action.required or not action.option_strings]
        formatter.add_usage(self.usage, given, [])
        usage = formatter.format_help().strip()
        if self.usage or not any(self._options()):
            return usage
        return usage + ("\n  [options]" if len(usage) > 90 else " [options]")

    def _groups(self) -> Iterator[tuple[str | None, list[argparse.Action]]]:
        return ((group.title, list(_entries(group._group_actions))) for group in self._action_groups)

    def _common(self) -> Iterator[tuple[str | None, list[argparse.Action]]]:
        """Positional arguments in their groups, then the common options together."""
        for title, actions in self._groups():
            yield title, [action for action in actions if not action.option_strings]
        yield "options", [action for action in self._options() if action not in self._advanced]

    def _options(self) -> Iterator[argparse.Action]:
        return (action for action in self._actions if action.option_strings and action.help != argparse.SUPPRESS)


def _entries(actions: Iterable[argparse.Action]) -> Iterator[argparse.Action]:
    """What a help lists: for actions of a command, each of them."""
    for action in actions:
        if isinstance(action, argparse._SubParsersAction) and action.help != argparse.SUPPRESS:
            yield from action._get_subactions()
        else:
            yield action


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Keeps an option and its help on one line for longer than argparse does."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=30)


class HelpGroup(argparse._ArgumentGroup):
    """A titled group of options."""

    def __init__(self, parser: Parser, title: str | None, *, advanced: bool, **settings: Any) -> None:
        super().__init__(parser, title, **settings)
        self._parser, self._is_advanced = parser, advanced

    def add_argument(self, *names: str, advanced: bool | None = None, **settings: Any) -> argparse.Action:
        """As in argparse; `advanced` overrides the setting of the group."""
        action = super().add_argument(*names, **settings)
        return self._parser._sorted(action, advanced=self._is_advanced if advanced is None else advanced)


class _FullHelp(argparse.Action):
    """`--help-all`."""

    def __init__(self, option_strings: Sequence[str], dest: str, **settings: Any) -> None:
        super().__init__(option_strings, argparse.SUPPRESS, nargs=0, default=argparse.SUPPRESS, **settings)

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        assert isinstance(parser, Parser)
        print(parser.format_full_help(), end="")
        parser.exit()


class _Explain(_FullHelp):
    """`--explain`."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        print(
            "\n\n".join(
                import_module(name if "." in name else f"emulator.views.terminal.{name}").EXPLAIN for name in self.const
            )
        )
        parser.exit()


class _ExplainFigures(_Explain):
    """The same; after the argument that it names it sets `explain`, and the command explains the figures of that."""

    def __call__(self, parser: argparse.ArgumentParser, *given: object) -> None:
        if not getattr(given[0], str(self.metavar), None):
            super().__call__(parser, *given)
        setattr(given[0], "explain", True)  # noqa: B010 (argparse's namespace)


T = TypeVar("T")


def argument(read: Callable[[str], T]) -> Callable[[str], T]:
    """An argparse type whose error text is that of the ValueError."""

    def convert(text: str) -> T:
        try:
            return read(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return convert


def whole(least: int, *, most: int = LARGEST_COUNT) -> Callable[[str], int]:
    """A converter for whole numbers from `least` to `most`."""
    return partial(parse_whole, least=least, most=most)


def at_least(least: int, *, most: int = LARGEST_COUNT) -> Callable[[str], int]:
    """An argparse type: a whole number from `least` to `most`."""
    return argument(whole(least, most=most))
