"""`charkha help completion`: completion of commands, options and files for a shell."""

from __future__ import annotations

import argparse
import re

import shtab

from emulator.cli.parser import Subparsers
from emulator.cli.words import SUMMARIES
from emulator.plugins import BUILT_IN, PluginKind
from emulator.shipped import PAGES
from emulator.trace.meaning.names import COLLECTIVES

SHELLS = ("bash", "zsh", "fish")
_WORDS = "DIR|DST|FILE|GROUP|PATH|PCAP|ROOT|RULES|RUN|SRC|TOPOLOGY|TRACE"
_FILES = re.compile(rf"((ID|NAME)\|)?({_WORDS})")
"""Metavars that stand for a file or a folder."""
_EPILOG = """example:
  charkha help completion bash > ~/.local/share/bash-completion/completions/charkha

  charkha help completion zsh > ~/.zfunc/_charkha        with fpath+=(~/.zfunc) in ~/.zshrc
  charkha help completion fish > ~/.config/fish/completions/charkha.fish
"""


def add_parser(subparsers: Subparsers) -> None:
    """Add `completion` to the command line."""
    parser = subparsers.add_parser(
        "completion", description="Print a script that completes commands, options and files.", epilog=_EPILOG
    )
    parser.add_argument("shell", metavar="SHELL", choices=SHELLS, help=", ".join(SHELLS))
    parser.set_defaults(handler=_run)


def _run(args: argparse.Namespace) -> None:
    from emulator.cli.main import build_parser

    parser = build_parser(BUILT_IN[PluginKind.COMMANDS])
    _describe(parser, "")
    print(shtab.complete(parser, shell=args.shell))


def _describe(parser: argparse.ArgumentParser, path: str) -> None:
    """Add what argparse does not know: which commands to list, and which words are files or collectives."""
    below = [words.split()[-1] for words in SUMMARIES if words.startswith(f"{path} ")]
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            action.help = None
            listed = {one.dest for one in action._choices_actions}
            for name, inner in action.choices.items():
                words = f"{path} {name}".strip()
                if name not in listed and words in SUMMARIES:
                    action._choices_actions.append(action._ChoicesPseudoAction(name, (), SUMMARIES[words]))
                _describe(inner, words)
        elif action.metavar in ("COLLECTIVE", "C"):
            action.choices = (*COLLECTIVES, *below)
        elif action.metavar == "TOPIC":
            action.choices = (*PAGES.paths, *below)
        elif _FILES.fullmatch(str(action.metavar)):
            action.complete = shtab.FILE  # type: ignore[attr-defined]
