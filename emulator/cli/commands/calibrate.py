"""`charkha calibrate`: what the tester itself costs."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from agents.transports.catalogue import TRANSPORTS
from emulator.cli.options.arguments import add_secret_options, at_least
from emulator.experiment.calibrating import calibrate, can_be_cabled
from emulator.run_folder.places import check_file
from emulator.statistics.calibration import FORMAT, LOOPBACK, Calibration, default_path, to_json, write_calibration
from emulator.topology.load import load_topology
from emulator.topology.model import Topology
from emulator.units import format_duration
from emulator.views.figures import NONE, number_cell, rate_cell
from emulator.views.terminal.console import console
from emulator.visible import visible

if TYPE_CHECKING:
    from emulator.cli.options.arguments import Subparsers

STEADY = 0.25
"""Coefficient of variation of large collectives that a machine of one's own stays below."""
_EXAMPLE = """example:
  charkha calibrate --topology topologies/two-hosts-switch.yaml

Later runs on that topology say which collectives were as slow as the tester itself. docs/calibrate.md explains it.
"""


def add_parser(subparsers: Subparsers) -> None:
    """Add `calibrate` to the command line."""
    parser = subparsers.add_parser(
        "calibrate",
        help="what the tester itself costs: rate, per-message cost, timer jitter, clock error",
        description="Measure what the tester can do without a device under test, for runs to be held against.",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--topology", metavar="FILE", type=Path, help="that runs will use (default: loopback)")
    parser.add_argument("--allow-network", metavar="PREFIX", action="append", default=[], help="as for run")
    parser.add_argument("--transport", choices=TRANSPORTS, action="append", help="repeatable (default: all)")
    parser.add_argument(
        "--ranks", metavar="N", type=at_least(2, most=1024), help="default: one per host, or two per core"
    )
    parser.add_argument("--calibration", metavar="FILE", type=Path, help="to write (default: where run looks for it)")
    parser.add_argument("--listen", metavar="HOST:PORT", help="look at the clocks of agents that dial in there")
    add_secret_options(parser.add_argument_group("agents on other machines"))
    parser.add_argument("--json", action="store_true", help="the file's content as JSON on stdout")
    parser.set_defaults(handler=run)


def run(args: argparse.Namespace) -> int:
    """Measure, write the file, print it.

    Raises:
        EmulatorError: bad input, a failed run, a host that lacks something.
    """
    topology = None
    if args.topology is not None:
        topology = load_topology(args.topology, ranks=0, allow_networks=args.allow_network)
    listening = [
        word for name in ("listen", "token_file", "tls_cert", "tls_key", "tls_ca") for word in _word(args, name)
    ]
    if args.calibration is not None:
        check_file(args.calibration, "--calibration", mark=FORMAT, makes_folder=True)
    made = calibrate(
        topology, transports=args.transport or TRANSPORTS, ranks=args.ranks, listening=listening if args.listen else ()
    )
    path = args.calibration or default_path(made.topology_digest)
    write_calibration(path, made)
    for problem in _problems(topology, made):
        print(f"charkha: {problem}", file=sys.stderr)
    if args.json:
        print(json.dumps(to_json(made) | {"file": str(path)}, indent=2))
        return 0
    out = console()
    out.print(render(made))
    out.print(f"Calibration: {visible(str(path))}", soft_wrap=True, highlight=False)
    return 0


def _word(args: argparse.Namespace, name: str) -> list[str]:
    value = getattr(args, name)
    return [] if value is None else [f"--{name.replace('_', '-')}", str(value)]


def _problems(topology: Topology | None, made: Calibration) -> Iterator[str]:
    if topology is not None and can_be_cabled(topology) and made.where == LOOPBACK:
        yield "measured over loopback, where frames need not be cut: as root it would be measured as in a lab"
    for one in made.transports:
        if one.variation is not None and one.variation > STEADY:
            percent = number_cell(100 * one.variation)
            yield f"{one.transport} varied by {percent} %: something else uses this machine; calibrate when it is idle"


def render(made: Calibration) -> RenderableType:
    """The calibration for people."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for title in ("transport", "ranks", "agents", "rate\nGB/s", "step", "per\nmessage", "variation"):
        table.add_column(title, justify="left" if title == "transport" else "right", vertical="bottom")
    for one in made.transports:
        table.add_row(
            one.transport,
            str(one.ranks),
            str(one.agents),
            rate_cell(one.rate_bytes_per_s),
            format_duration(one.step_ns),
            format_duration(one.message_ns),
            NONE if one.variation is None else f"{number_cell(100 * one.variation)} %",
        )
    timer = made.timer
    late = f"p99 {format_duration(timer.p99_ns)}, max {format_duration(timer.max_ns)} of {timer.alarms} alarms"
    lines = [f"Timer        {format_duration(timer.p50_ns)} late at the median, {late}"]
    for clock in made.clocks:
        error = format_duration(clock.error_ns) if clock.error_ns else "none: it shares the controller's clock"
        lines.append(f"Clock        {clock.agent}: offset {format_duration(clock.offset_ns)}, error {error}")
    about = Text(f"The tester alone, over {made.where}: payload of all ranks together, in pairs", style="bold")
    return Group(about, Text(), table, Text(), *map(Text, lines))
