"""`charkha help`: pages of the documentation."""

from __future__ import annotations

import argparse

from emulator.cli.parser import Subparsers
from emulator.cli.words import SUMMARIES
from emulator.errors import InputError
from emulator.removed import OLD_WORDS
from emulator.shipped import PAGES, first_line
from emulator.suggestions import did_you_mean

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
        for name, path in pages.items():
            print(f"  {name:<14}{first_line(path)}")
    return 0
