"""`charkha plan`: what a network would have to carry, and how long that takes at least. No traffic."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from emulator.cli.options import (
    OPTIONAL_TRACE,
    add_options,
    add_spec_file,
    build,
    changed,
    experiment_of_file,
    given,
    naming_events,
    options_at,
)
from emulator.cli.output import notify, print_json, print_tables
from emulator.cli.parser import argument, at_least
from emulator.errors import PlanError
from emulator.experiment.settle.plan import CollectiveLoad, PlannedLoad, plan_experiment
from emulator.experiment.spec.settings import ALGORITHMS
from emulator.experiment.spec.spec import Experiment
from emulator.option import Level
from emulator.plugins import PluginKind, load
from emulator.trace.meaning.names import COLLECTIVES, parse_collective
from emulator.units import parse_size
from emulator.views.as_json import flow_links_to_json, flows_to_json, plan_to_json
from emulator.views.terminal.console import console
from emulator.views.terminal.plan_table import render

if TYPE_CHECKING:
    from emulator.cli.parser import Parser, Subparsers

_PLACES = ("network.topology", "network.allow_networks", "network.transport.name", "network.transport.message_bytes")
OPTIONS = [
    *OPTIONAL_TRACE,
    *changed(
        options_at(*_PLACES, "network.mtu", ALGORITHMS, "network.transport.options.multipath"),
        "network.mtu",
        level=Level.FULL,
    ),
]
_LARGEST_SEED = (1 << 32) - 1
_EXAMPLE = """example:
  charkha plan --collective all_to_all -n 8 -b 8M --topology topologies/leaf-spine-2x2.yaml

  charkha plan lab/examples/transformer-8r --topology topologies/leaf-spine-2x2.yaml
  charkha plan --transformer layers=96,hidden=12288,tensor=8,pipeline=8,data=1563 \\
      --algorithm all_reduce=ring --topology topologies/leaf-spine-large.yaml

--collective counts sizes as nccl-tests does. docs/plan.md explains every number.
"""


def add_parser(subparsers: Subparsers) -> None:
    """Add `plan` to the command line."""
    parser = subparsers.add_parser(
        "plan",
        description="Map a trace, a run spec, a collective or a transformer onto a topology: bytes per\n"
        "link, port and flow, incast, ECMP collisions, ideal times. No traffic.",
        epilog=_EXAMPLE,
    )
    add_options(parser, OPTIONS, with_set=Level.FULL)
    add_spec_file(parser)
    _add_other_workloads(parser)
    _add_routing(parser)
    parser.add_argument("--json", action="store_true", help="print every link and flow as JSON")
    parser.add_explain("plan_table", "flow_load_table", advanced=True)
    parser.set_defaults(handler=run)


def run(args: argparse.Namespace) -> int:
    """Make a plan; prints the table, or JSON.

    Raises:
        TraceError: the trace cannot be read or played.
        TopologyError: the topology is wrong.
        PlanError: the workload and the options do not fit together.
        InputError: a file of link loads cannot be read.
    """
    experiment, load = experiment_of(args), _load(args)
    with naming_events(args.file):
        made = plan_experiment(experiment, load, seed=args.seed, link_loads=args.link_loads, notify=notify)
    if args.json:
        print_json(
            plan_to_json(made.plan, jct_ns=made.jct_ns, jct_note=made.jct_note)
            | {
                "warnings": made.imported.warnings(),
                "changes": [one._asdict() for one in made.changes],
                "flows_beside": flows_to_json(made.flows),
                "flows_beside_links": flow_links_to_json(made.flow_links, made.plan.paths),
            }
        )
    else:
        print_tables(
            render(
                made.plan,
                jct_ns=made.jct_ns,
                jct_note=made.jct_note,
                width=console().width,
                flows=made.flows,
                flow_links=made.flow_links,
                changes=[f"{one.begins} to {one.ends}: {one.where} {one.what}" for one in made.changes],
            )
        )
    return 0


def experiment_of(args: argparse.Namespace) -> Experiment:
    """The run that is planned; a collective or a transformer takes the place of a trace that is never opened.

    An option overrides what the file of a run spec sets.

    Raises:
        PlanError: not exactly one workload was given.
    """
    part = given(args, OPTIONS)
    trace = part.setdefault("job", {}).setdefault("trace", {})
    if sum(one is not None for one in (trace.get("path"), args.file, args.collective, args.transformer)) != 1:
        raise PlanError("give one of TRACE, -f FILE, --collective and --transformer")
    if args.file is not None:
        if not trace:
            part["job"].pop("trace")
        return experiment_of_file(args, part, OPTIONS)
    trace.setdefault("path", "")
    return build(part, OPTIONS, args)


def _add_other_workloads(parser: Parser) -> None:
    group = parser.add_argument_group("instead of a trace")
    group.add_argument("--collective", type=argument(parse_collective), metavar="C", help=", ".join(COLLECTIVES))
    group.add_argument("-n", dest="world", metavar="N", type=at_least(1), help="number of ranks of the collective")
    group.add_argument("-b", "--bytes", metavar="SIZE", type=argument(parse_size), default=1 << 20, help="default: 1M")
    group.add_argument(
        "--group-size",
        metavar="M",
        type=at_least(1),
        advanced=True,
        help="play it in parallel groups of M consecutive ranks (default: N)",
    )
    group.add_argument(
        "--transformer",
        metavar="NAME=VALUE,…",
        type=argument(_transformer),
        help="one training iteration: layers, hidden, sequence, batch, tensor, pipeline, data …",
    )


def _add_routing(parser: Parser) -> None:
    group = parser.add_advanced_group("routing")
    group.add_argument(
        "--seed",
        metavar="N",
        type=at_least(0, most=_LARGEST_SEED),
        help="seed of the ECMP hash (default: the topology's)",
    )
    group.add_argument(
        "--link-loads",
        metavar="FILE",
        type=Path,
        help='JSON {"leaf0:u0 > spine0:d0": BYTES, …}: split traffic over equal-cost links as observed, not evenly',
    )


def _transformer(text: str) -> PlannedLoad:
    described: PlannedLoad = load(PluginKind.HOOKS, "transformer_load")(text)
    return described


def _load(args: argparse.Namespace) -> PlannedLoad | None:
    """What is planned instead of a trace; None for a trace.

    Raises:
        PlanError: a collective without ranks.
    """
    if args.collective is None:
        transformer: PlannedLoad | None = args.transformer
        return transformer
    if args.world is None:
        raise PlanError("--collective needs -n, the number of ranks that play it")
    group_size = min(args.group_size or args.world, args.world)
    return CollectiveLoad(args.collective, args.world, args.bytes, group_size)
