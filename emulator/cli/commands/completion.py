"""`charkha completion`: completion of commands, options and files for a shell."""

from __future__ import annotations

import argparse
import re

import shtab

from emulator.cli.parser import Subparsers
from emulator.trace.meaning.collective_names import COLLECTIVES

SHELLS = ("bash", "zsh", "fish")
_WORDS = "DIR|DST|FILE|GROUP|PATH|PCAP|ROOT|RULES|RUN|SRC|TOPOLOGY|TRACE"
_FILES = re.compile(rf"((ID|NAME)\|)?({_WORDS})")
"""Metavars that stand for a file or a folder."""
_EPILOG = """example:
  charkha completion bash > ~/.local/share/bash-completion/completions/charkha

  charkha completion zsh > ~/.zfunc/_charkha        with fpath+=(~/.zfunc) in ~/.zshrc
  charkha completion fish > ~/.config/fish/completions/charkha.fish
"""


def add_parser(subparsers: Subparsers) -> None:
    """Add `completion` to the command line."""
    parser = subparsers.add_parser(
        "completion", description="Print a script that completes commands, options and files.", epilog=_EPILOG
    )
    parser.add_argument("shell", metavar="SHELL", choices=SHELLS, help=", ".join(SHELLS))
    parser.set_defaults(handler=_run)


def _run(args: argparse.Namespace) -> None:
    from emulator.cli.main import COMMANDS, build_parser

    summaries = {name: summary for group in COMMANDS.values() for name, summary in group.items()}
    parser = build_parser(summaries)
    _describe(parser, summaries)
    print(shtab.complete(parser, shell=args.shell))


def _describe(parser: argparse.ArgumentParser, summaries: dict[str, str]) -> None:
    """Add what argparse does not know: which commands to list, and which words are files or collectives."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            action.help = None
            listed = {one.dest for one in action._choices_actions}
            for name, inner in action.choices.items():
                if name not in listed:
                    action._choices_actions.append(action._ChoicesPseudoAction(name, (), summaries[name]))
                _describe(inner, summaries)
        elif action.metavar in ("COLLECTIVE", "C"):
            action.choices = tuple(COLLECTIVES)
        elif _FILES.fullmatch(str(action.metavar)):
            action.complete = shtab.FILE  # type: ignore[attr-defined]
