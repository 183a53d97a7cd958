"""`charkha agent calibrate`: the limits of this tester."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.text import Text

from emulator.annexes.bench_kit.measure_tester import calibrate, doubts
from emulator.cli.options import add_options, build, given, options_at
from emulator.cli.output import notify, print_json, print_tables
from emulator.cli.parser import at_least
from emulator.experiment.settle.testbed import topology_without_host
from emulator.experiment.spec.parts import merge
from emulator.results.run_folder.places import check_file
from emulator.results.statistics.tester.calibration import (
    FORMAT,
    Calibration,
    TransportCost,
    default_path,
    to_json,
    write_calibration,
)
from emulator.transports.registry import EVERYWHERE
from emulator.units import format_duration
from emulator.views.columns.columns import Column, bold, explain
from emulator.views.columns.figures import NONE, duration_cell, number_cell, rate_cell
from emulator.views.terminal.table import FittedTable, facts_grid

if TYPE_CHECKING:
    from emulator.cli.parser import Subparsers

_EXAMPLE = """example:
  charkha agent calibrate --topology topologies/two-hosts-switch.yaml

Later runs on that topology mark collectives whose time the tester itself determines.
docs/calibrate.md has the details.
"""


OPTIONS = [
    one for one in options_at("network.topology", "network.allow_networks", "agents") if one.path != "agents.count"
]


def add_parser(subparsers: Subparsers) -> None:
    """Add `calibrate` to the command line."""
    parser = subparsers.add_parser(
        "calibrate",
        description="Measure the limits of the tester without a device under test, for comparison with later runs.",
        epilog=_EXAMPLE,
    )
    add_options(parser, OPTIONS)
    parser.add_argument("--transport", choices=EVERYWHERE, action="append", help="repeatable (default: all)")
    parser.add_argument(
        "--ranks", metavar="N", type=at_least(2, most=1024), help="default: one per host, or two per core"
    )
    parser.add_argument("--calibration", metavar="FILE", type=Path, help="file to write (default: where run looks)")
    parser.add_argument("--json", action="store_true", help="print the content of the file as JSON")
    parser.add_explain("emulator.annexes.bench_kit.calibrate")
    parser.set_defaults(handler=run)


def run(args: argparse.Namespace) -> int:
    """Measure, write the file, print it.

    Raises:
        EmulatorError: bad input, a failed run, a host that lacks something.
    """
    part = merge({"job": {"trace": {"path": ""}}}, given(args, OPTIONS))
    experiment = build(part, OPTIONS)
    topology = None if experiment.network.topology is None else topology_without_host(experiment, ranks=0)
    if args.calibration is not None:
        check_file(args.calibration, "--calibration", mark=FORMAT, makes_folder=True)
    made = calibrate(
        topology,
        transports=args.transport or EVERYWHERE,
        ranks=args.ranks,
        agents=None if experiment.agents.listen is None else experiment.agents,
    )
    path = args.calibration or default_path(made.topology_digest)
    write_calibration(path, made)
    for problem in doubts(topology, made):
        notify(problem)
    if args.json:
        print_json(to_json(made) | {"file": str(path)})
    else:
        print_tables(render(made), f"Calibration: {path}")
    return 0


_TRANSPORTS: tuple[Column[TransportCost], ...] = (
    Column("transport", "transport of the agents", key="transport", is_number=False),
    Column("ranks", "ranks, which exchange data in pairs", key="ranks"),
    Column("agents", "agent processes", key="agents"),
    Column(
        "rate\nGB/s",
        "payload of all ranks together with large messages",
        unit="1e9 bytes per second",
        key="rate_bytes_per_s",
        show=rate_cell,
        style=bold,
    ),
    Column("step", "time of a step with almost no payload", key="step_ns", show=duration_cell),
    Column("per\nmessage", "step / ranks: cost of a message", key="message_ns", show=duration_cell),
    Column(
        "variation",
        "coefficient of variation of the largest collectives",
        cell=lambda one: NONE if one.variation is None else f"{number_cell(100 * one.variation)} %",
    ),
)
EXPLAIN = explain(_TRANSPORTS, title="What the tester achieves without a device under test:")


def render(made: Calibration) -> RenderableType:
    """The calibration for a console."""
    about = f"The tester alone, over {made.where}: payload of all ranks together, in pairs"
    table = FittedTable(_TRANSPORTS, made.transports)
    return Group(Text(about, style="bold"), Text(), table, Text(), facts_grid(_lines(made)))


def _lines(made: Calibration) -> Iterator[tuple[str, str]]:
    timer = made.timer
    tail = f"p99 {format_duration(timer.p99_ns)}, max {format_duration(timer.max_ns)} of {timer.alarms:,} alarms"
    yield "Timer", f"{format_duration(timer.p50_ns)} late at the median, {tail}"
    for clock in made.clocks:
        error = format_duration(clock.error_ns) if clock.error_ns else "none: it shares the controller's clock"
        yield "Clock", f"{clock.agent}: offset {format_duration(clock.offset_ns)}, error {error}"
