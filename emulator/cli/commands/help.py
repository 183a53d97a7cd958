"""`charkha help`: pages of the documentation; `charkha help examples`: what comes with Charkha."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from itertools import groupby

from emulator.cli.output import print_json
from emulator.cli.parser import Subparsers
from emulator.cli.words import SUMMARIES
from emulator.errors import InputError
from emulator.removed import OLD_WORDS
from emulator.shipped import PAGES, PROFILES, TOPOLOGIES, TRACES, first_line
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
    from emulator.experiment.series.suite_document import shipped_suites

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
