"""The command: measure, in turns, and print ratios."""

from __future__ import annotations

import argparse
import json
import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console

from lab.benchmarks.peers.environment import Watch, environment
from lab.benchmarks.peers.report import Measured, render, to_json
from lab.benchmarks.peers.rounds import compare, measure
from lab.benchmarks.peers.settings import FULL, OWN, QUICK, Scale, Setting, settings

WIDTH = 130
_EXAMPLE = """example:
  lab/benchmarks/peers/install.sh
  python -m lab.benchmarks.peers --json figures.json

Peers that are not installed are named and left out.
"""


def default_peers_folder() -> Path:
    """Where install.sh puts the peers' environment if it is not told otherwise."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "charkha" / "peers"


def parse(arguments: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m lab.benchmarks.peers",
        description="Measure Charkha and others in turns on this machine, over loopback, and print ratios.",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--pairs", metavar="N", type=int, help="rounds (default: 5; quick: 2)")
    parser.add_argument("--transport", choices=OWN, action="append", help="repeatable (default: all)")
    parser.add_argument("--only", metavar="SETTING", action="append", help="repeatable: one of --list")
    parser.add_argument("--list", action="store_true", help="name the settings and end")
    parser.add_argument("--quick", action="store_true", help="small and short: shows that it works, judges nothing")
    parser.add_argument(
        "--peers", metavar="DIR", type=Path, default=default_peers_folder(), help="default: %(default)s"
    )
    parser.add_argument("--json", metavar="FILE", type=Path, help="write all readings here")
    options = parser.parse_args(arguments)
    if options.pairs is not None and options.pairs < 1:
        parser.error(f"--pairs {options.pairs}: at least one is needed")
    if options.json is not None and not options.json.absolute().parent.is_dir():
        parser.error(f"--json {options.json}: there is no folder {options.json.parent}")
    return options


def chosen(options: argparse.Namespace) -> list[Setting]:
    """The settings asked for.

    Raises:
        SystemExit: one of them does not exist.
    """
    python = options.peers / "bin" / "python"
    every = settings(_scale(options), transports=options.transport or OWN, peers_python=python)
    unknown = set(options.only or ()) - {setting.key for setting in every}
    if unknown:
        names = ", ".join(setting.key for setting in every)
        print(f"there is no setting {', '.join(sorted(unknown))}; there are: {names}", file=sys.stderr)
        raise SystemExit(2)
    return [setting for setting in every if not options.only or setting.key in options.only]


def _scale(options: argparse.Namespace) -> Scale:
    return QUICK if options.quick else FULL


def main(arguments: list[str]) -> int:
    """Measure and print; 0 unless the command line is wrong, whatever the figures are."""
    options = parse(arguments)
    wanted = chosen(options)
    if options.list:
        print("\n".join(f"{setting.key:18} {setting.title}" for setting in wanted))
        return 0
    pairs = options.pairs or (2 if options.quick else 5)
    facts = {"begun": _now(), "scale": "quick" if options.quick else "full", "pairs": pairs, "host": environment()}
    measured: list[Measured] = []
    for setting in wanted:
        measured.append(_measure(setting, pairs=pairs, judged=_scale(options).is_full))
        _store(options.json, measured, facts)
    Console(width=None if sys.stdout.isatty() else WIDTH).print(render(measured), highlight=False)
    return 0


def _measure(setting: Setting, *, pairs: int, judged: bool) -> Measured:
    watch = Watch.begin()
    series = measure(setting, pairs=pairs, say=_say)
    return Measured(setting, series, compare(setting, series, judged=judged), watch.end())


def _store(path: Path | None, measured: list[Measured], facts: dict[str, Any]) -> None:
    if path is not None:
        path.write_text(json.dumps(to_json(measured, facts={**facts, "ended": _now()}), indent=2) + "\n")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


if __name__ == "__main__":
    try:
        raise SystemExit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        raise SystemExit(130) from None
