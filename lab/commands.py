"""`python -m lab.commands > docs/commands.md`: every command, from the parser."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator

from emulator.cli.main import build_parser
from emulator.cli.words import COMMANDS
from emulator.plugins import BUILT_IN, PluginKind
from emulator.removed import OLD_WORDS

_BUILT_IN = BUILT_IN[PluginKind.COMMANDS]
_OPENING = """# Commands
The `--help` of a command shows its common options and an example, `--help-all` every option. Commands that print a
table take `--json` and `--explain`. Results go to stdout, everything else to stderr; [exit codes](exit-codes.md).
TRACE is a folder or prefix of `<prefix>.<rank>.et` files, or one file: Chakra protobuf, plain, gzip or zstandard, or
Chakra JSON; a folder of PyTorch traces; or a master file. `python -m lab.commands` makes this page from the parser.
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


def _rows(paths: Iterable[str]) -> Iterator[tuple[str, str]]:
    for path in paths:
        if path in _BUILT_IN:
            parser: argparse.ArgumentParser = build_parser([path])
            for word in path.split():
                parser = _below(parser)[word]
            yield from _tree(path, parser)


def _tree(words: str, parser: argparse.ArgumentParser) -> Iterator[tuple[str, str]]:
    below = {word: inner for word, inner in _below(parser).items() if f"{words} {word}" not in _BUILT_IN}
    if not below or parser.get_default("handler") is not None:
        arguments = " ".join(
            action.metavar if isinstance(action.metavar, str) else action.dest.upper()
            for action in parser._actions
            if not action.option_strings and not isinstance(action, argparse._SubParsersAction)
        )
        yield f"{words} {arguments}".rstrip(), parser.description or ""
    for word, inner in below.items():
        yield from _tree(f"{words} {word}", inner)


def _below(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    actions = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    return {word: inner for action in actions for word, inner in action.choices.items()}


def _row(row: tuple[str, str]) -> str:
    words, text = (" ".join(cell.replace("|", "\\|").split()) for cell in row)
    return f"| `charkha {words}` | {text} |\n"


if __name__ == "__main__":
    print(page(), end="")
