"""Pages of the documentation that the code makes.

`python -m lab.commands > docs/commands.md`: every command, from the parser.
`python -m lab.commands settings > docs/settings.md`: every setting of a run spec, from where it is declared.
`python -m lab.commands man > packaging/charkha.1`: the manual page, with every option that `--help-all` lists.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Iterator

from emulator.cli.main import build_parser
from emulator.cli.parser import Parser
from emulator.cli.words import COMMANDS
from emulator.experiment.spec.flow_spec import PerftestFlow
from emulator.experiment.spec.settings import SETTINGS
from emulator.option import Level, Option, options_of
from emulator.plugins import BUILT_IN, PluginKind
from emulator.suggestions import OLD_WORDS

_BUILT_IN = BUILT_IN[PluginKind.COMMANDS]
_OPENING = """# Commands
The `--help` of a command shows its common options and an example, `--help-all` every option but those of experts,
which are [settings](settings.md). Commands that print a table take `--json` and `--explain`. Results go to stdout,
everything else to stderr; [exit codes](exit-codes.md). TRACE is a folder or prefix of `<prefix>.<rank>.et` files, or
one file: Chakra protobuf, plain, gzip or zstandard, or Chakra JSON; a folder of PyTorch traces; or a master file.
`python -m lab.commands` makes this page from the parser.
"""
_SETTINGS = """# Settings
Every setting of a [run spec](experiment.md). Its path is its place in the file; `job` is its one job, or each of
`jobs`, `flows[0]` the first of the flows. `charkha run`, `bench`, `sweep`, `plan` and `suite run` take each as `--set
NAME=VALUE`, and `charkha sweep` varies it with `--vary NAME=VALUES`: NAME is the path, or its last word if that is
clear, also without the unit. An option in brackets is for experts: it works, but `--help-all` does not list it.
Options of transports can also stand in the `transport:` section of a [topology](topologies.md). `python -m
lab.commands settings` makes this page.
"""
_MANUAL = """.TH CHARKHA 1 "" "Charkha" "User Commands"
.SH NAME
charkha \\- play MLCommons Chakra execution traces as network traffic and measure every collective
.SH SYNOPSIS
.B charkha
.I COMMAND
[options]
.SH DESCRIPTION
Results go to stdout, everything else to stderr. Commands that print a table take \\-\\-json and \\-\\-explain.
.B charkha help
lists pages of the documentation that come with it, and shows them.
.SH EXIT STATUS
0 done, 1 failed, 2 bad input, 3 the host lacks something, 4 regression, 5 FAIL, 6 TESTER\\-LIMITED, 7 UNDECIDED,
130 interrupted.
.SH COMMANDS
"""


def page() -> str:
    """The page of all commands, Markdown."""
    tables = [
        f"## {title.capitalize()}\n| command | does |\n|---|---|\n" + "".join(_row(row) for row in _rows(group))
        for title, group in COMMANDS.items()
    ]
    old = "".join(f"| `charkha {word}` | `charkha {today}` |\n" for word, today in OLD_WORDS.items())
    was = "These words of 0.1.0 work until 1.0; a line on stderr names the new one.\n\n| was | is |\n|---|---|\n"
    return "\n".join([_OPENING, *tables, f"## Old words\n{was}{old}"])


def settings_page() -> str:
    """The page of all settings, Markdown."""
    groups: dict[str, list[Option]] = {}
    for one in (*SETTINGS, *options_of(PerftestFlow, "flows[0].")):
        section, _, _ = one.path.rpartition(".")
        groups.setdefault(section or "the run", []).append(one)
    tables = [
        f"## {title}\n| setting | option | sets |\n|---|---|---|\n" + "".join(map(_setting_row, options))
        for title, options in groups.items()
    ]
    return "\n".join([_SETTINGS, *tables])


def _setting_row(one: Option) -> str:
    flags = ", ".join(f"`{flag}`" for flag in one.flags)
    shown = f"({flags})" if flags and one.facts.level is Level.EXPERT else flags
    text = one.facts.summary if one.is_switch else one.text
    values = f"; one of {', '.join(one.choices)}" if one.choices and not (one.is_switch or one.facts.metavar) else ""
    return f"| `{one.name}` | {shown} | {f'{text}{values}'.replace('|', chr(92) + '|').replace('<', '&lt;')} |\n"


def _rows(paths: Iterable[str]) -> Iterator[tuple[str, str]]:
    for words, parser in _parsers(paths):
        arguments = " ".join(
            action.metavar if isinstance(action.metavar, str) else action.dest.upper()
            for action in parser._actions
            if not action.option_strings and not isinstance(action, argparse._SubParsersAction)
        )
        yield f"{words} {arguments}".rstrip(), parser.description or ""


def manual() -> str:
    """The manual page, roff: the help of every command in full."""
    os.environ["COLUMNS"] = "80"  # of argparse's lines
    helps = [
        f".SS charkha {words}\n.nf\n{_roff(parser.format_full_help())}.fi\n"
        for group in COMMANDS.values()
        for words, parser in _parsers(group)
        if isinstance(parser, Parser)
    ]
    return "".join([_MANUAL, *helps])


def _parsers(paths: Iterable[str]) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Every command that can be run, with its parser."""
    for path in paths:
        if path in _BUILT_IN:
            parser: argparse.ArgumentParser = build_parser([path])
            for word in path.split():
                parser = _below(parser)[word]
            yield from _tree(path, parser)


def _tree(words: str, parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    below = {word: inner for word, inner in _below(parser).items() if f"{words} {word}" not in _BUILT_IN}
    if not below or parser.get_default("handler") is not None:
        yield words, parser
    for word, inner in below.items():
        yield from _tree(f"{words} {word}", inner)


def _roff(text: str) -> str:
    lines = (line.replace("\\", "\\e").replace("-", "\\-") for line in text.splitlines())
    marked = "".join(f"\\&{line}\n" if line.startswith((".", "'")) else f"{line}\n" for line in lines)
    return "".join(one if one.isascii() else f"\\[u{ord(one):04X}]" for one in marked)


def _below(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    actions = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    return {word: inner for action in actions for word, inner in action.choices.items()}


def _row(row: tuple[str, str]) -> str:
    words, text = (" ".join(cell.replace("|", "\\|").split()) for cell in row)
    return f"| `charkha {words}` | {text} |\n"


if __name__ == "__main__":
    print({"settings": settings_page, "man": manual}.get("".join(sys.argv[1:]), page)(), end="")
