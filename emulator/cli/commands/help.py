"""`charkha help`: pages of the documentation; below it, what comes with Charkha, and completion for a shell."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping
from itertools import groupby

from emulator.cli.output import print_json
from emulator.cli.parser import Subparsers
from emulator.cli.words import SUMMARIES
from emulator.errors import InputError
from emulator.plugins import BUILT_IN, PluginKind
from emulator.shipped import PAGES, PROFILES, TOPOLOGIES, TRACES, first_line, shipped_suites
from emulator.suggestions import OLD_WORDS, did_you_mean

_ALIASES = {"rules": "expect", "run-spec": "experiment", "hardware": "physical"}
_EPILOG = """example:
  charkha help
  charkha help exit codes
  charkha help trace check
  charkha help examples      lists what comes with Charkha
  charkha help completion bash
"""


def add_parser(subparsers: Subparsers) -> None:
    """Add `help` to the command line."""
    parser = subparsers.add_parser(
        "help", description="Print a page of the documentation; without TOPIC, list all pages.", epilog=_EPILOG
    )
    parser.add_argument("topic", metavar="TOPIC", nargs="*", help="for example glossary, topologies, rules, exit codes")
    parser.set_defaults(handler=_run)


def _run(args: argparse.Namespace) -> int:
    from emulator.cli.main import main

    topic, pages = "-".join(args.topic).lower(), PAGES.paths
    page = pages.get(_ALIASES.get(topic, topic))
    words = OLD_WORDS.get(" ".join(args.topic), " ".join(args.topic))
    if page is not None:
        print(page.read_text(encoding="utf-8"), end="")
    elif words in SUMMARIES:
        return main([*words.split(), "--help"])
    elif topic and topic != "topics":
        advice = did_you_mean(topic, [*pages, *_ALIASES, *SUMMARIES]) or "; `charkha help` lists the topics"
        raise InputError(f"there is no topic {' '.join(args.topic)!r}{advice}")
    else:
        width = max(map(len, pages))
        for name, path in pages.items():
            print(f"  {name:<{width}}  {first_line(path)}")
    return 0


_EXAMPLES_EPILOG = """example:
  charkha help examples
  cp "$(charkha help examples rack-template)" rack.yaml

Commands accept the names: charkha run transformer-8r --topology two-hosts-switch.
"""


def add_examples(subparsers: Subparsers) -> None:
    """Add `examples` to the command line."""
    text = "List the topologies, traces, profiles and suites that come with Charkha."
    parser = subparsers.add_parser("examples", description=text, epilog=_EXAMPLES_EPILOG)
    parser.add_argument("name", metavar="NAME", nargs="?", help="print the path of this one")
    parser.add_argument("--json", action="store_true", help="print kind, name, path and first line of each as JSON")
    parser.set_defaults(handler=_list_examples)


def _list_examples(args: argparse.Namespace) -> None:
    kinds = {
        "topologies": TOPOLOGIES.paths,
        "traces": TRACES.paths,
        "profiles": PROFILES.paths,
        "suites": shipped_suites(),
    }
    found = [
        {"kind": kind, "name": name, "path": str(path), "description": first_line(path)}
        for kind, paths in kinds.items()
        for name, path in paths.items()
    ]
    if args.name is not None:
        print(_path_of({one["name"]: one["path"] for one in found}, args.name))
    elif args.json:
        print_json(found)
    else:
        for kind, rows in groupby(found, key=lambda one: one["kind"]):
            print(kind, *(f"  {one['name']:<20}{one['description']}".rstrip() for one in rows), sep="\n")


def _path_of(paths: Mapping[str, str], name: str) -> str:
    if name not in paths:
        advice = did_you_mean(name, paths) or "; `charkha help examples` lists them"
        raise InputError(f"there is no example {name!r}{advice}")
    return paths[name]


SHELLS = ("bash", "zsh", "fish")
_WORDS = "DIR|DST|FILE|GROUP|PATH|PCAP|ROOT|RULES|RUN|SRC|TOPOLOGY|TRACE"
_FILES = re.compile(rf"((ID|NAME)\|)?({_WORDS})")
"""Metavars that stand for a file or a folder."""
_COMPLETION_EPILOG = """example:
  charkha help completion bash > ~/.local/share/bash-completion/completions/charkha

  charkha help completion zsh > ~/.zfunc/_charkha        with fpath+=(~/.zfunc) in ~/.zshrc
  charkha help completion fish > ~/.config/fish/completions/charkha.fish
"""


def add_completion(subparsers: Subparsers) -> None:
    """Add `completion` to the command line."""
    parser = subparsers.add_parser(
        "completion",
        description="Print a script that completes commands, options and files.",
        epilog=_COMPLETION_EPILOG,
    )
    parser.add_argument("shell", metavar="SHELL", choices=SHELLS, help=", ".join(SHELLS))
    parser.set_defaults(handler=_complete)


def _complete(args: argparse.Namespace) -> None:
    import shtab  # only completion needs it

    from emulator.cli.main import build_parser

    parser = build_parser(BUILT_IN[PluginKind.COMMANDS])
    _describe(parser, "")
    print(shtab.complete(parser, shell=args.shell))


def _describe(parser: argparse.ArgumentParser, path: str) -> None:
    """Add what argparse does not know: which commands to list, and which words are files or collectives."""
    import shtab

    from emulator.trace.meaning.names import COLLECTIVES

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
