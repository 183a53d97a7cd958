"""`charkha agent calibrate`: the limits of this tester."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from emulator.cli.options.converters import at_least
from emulator.cli.options.run import CONNECTION, NETWORK
from emulator.cli.options.table import OptionGroup, add_options, build, spec_part
from emulator.cli.output import notify, print_json, print_tables
from emulator.experiment.play.calibrate import calibrate, doubts
from emulator.experiment.settle.testbed import topology_without_host
from emulator.experiment.spec.parts import merge
from emulator.results.run_folder.places import check_file
from emulator.results.statistics.tester.calibration import FORMAT, default_path, to_json, write_calibration
from emulator.transports.registry import EVERYWHERE
from emulator.views.terminal.calibration_table import render

if TYPE_CHECKING:
    from emulator.cli.parser import Subparsers

_EXAMPLE = """example:
  charkha agent calibrate --topology topologies/two-hosts-switch.yaml

Later runs on that topology mark collectives whose time the tester itself determines.
docs/calibrate.md has the details.
"""


GROUPS = [OptionGroup("network", NETWORK[:2]), CONNECTION]


def add_parser(subparsers: Subparsers) -> None:
    """Add `calibrate` to the command line."""
    parser = subparsers.add_parser(
        "calibrate",
        description="Measure the limits of the tester without a device under test, for comparison with later runs.",
        epilog=_EXAMPLE,
    )
    add_options(parser, GROUPS)
    parser.add_argument("--transport", choices=EVERYWHERE, action="append", help="repeatable (default: all)")
    parser.add_argument(
        "--ranks", metavar="N", type=at_least(2, most=1024), help="default: one per host, or two per core"
    )
    parser.add_argument("--calibration", metavar="FILE", type=Path, help="file to write (default: where run looks)")
    parser.add_argument("--json", action="store_true", help="print the content of the file as JSON")
    parser.add_explain("calibration_table")
    parser.set_defaults(handler=run)


def run(args: argparse.Namespace) -> int:
    """Measure, write the file, print it.

    Raises:
        EmulatorError: bad input, a failed run, a host that lacks something.
    """
    part = merge({"job": {"trace": {"path": ""}}}, spec_part(args, GROUPS))
    experiment = build(part, GROUPS)
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
