"""`charkha plan`: what a network would have to carry, and how long that takes at least. No traffic."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from emulator.cli.options.converters import argument, at_least
from emulator.cli.options.run import ALGORITHM, MTU, NETWORK, TRACE, trace_argument
from emulator.cli.options.table import OptionGroup, add_options, build, spec_part
from emulator.errors import InputError, PlanError
from emulator.experiment.resolve import Resolved, overrides_of, resolve
from emulator.experiment.spec import COLLECTIVES, Experiment
from emulator.experiment.testbed import topology_without_host
from emulator.experiment.workload import load_from_files
from emulator.planner.choice import AlgorithmChoice
from emulator.planner.network.ecmp import LinuxHash, linux_hash, roce_source_ports
from emulator.planner.network.plan import Plan, instance_ns, make_plan
from emulator.planner.network.queueing import Sending
from emulator.planner.network.routing import Router, weights_of
from emulator.planner.network.traffic import (
    Traffic,
    traffic_of_collective,
    traffic_of_transformer,
    traffic_of_workload,
)
from emulator.planner.workloads.pipeline import PipelineSchedule
from emulator.planner.workloads.transformer import Transformer
from emulator.roce.constants import LEAST_WINDOW_PACKETS
from emulator.topology.model import Topology
from emulator.topology.paths import Paths
from emulator.trace.critical_path import longest_path_ns
from emulator.trace.model import Workload
from emulator.units import parse_size
from emulator.views.as_json.plan import plan_to_json
from emulator.views.terminal.console import console
from emulator.views.terminal.plan_table import render
from emulator.visible import visible

if TYPE_CHECKING:
    from emulator.cli.parser import Parser, Subparsers

GROUPS = [
    OptionGroup("", (trace_argument(is_optional=True),)),
    TRACE,
    OptionGroup("network", (*NETWORK, MTU, ALGORITHM)),
]
_LARGEST_SEED = (1 << 32) - 1
MOST_FLOWS_AS_LINUX = 1 << 22
"""More flows than this get a hash that costs a tenth."""
_EXAMPLE = """example:
  charkha plan --collective all_to_all -n 8 -b 8M --topology topologies/leaf-spine-2x2.yaml

  charkha plan lab/examples/transformer-8r --topology topologies/leaf-spine-2x2.yaml
  charkha plan --transformer layers=96,hidden=12288,tensor=8,pipeline=8,data=1563 --algorithm all_reduce=ring \\
      --topology topologies/leaf-spine-large.yaml

Sizes of --collective are counted as nccl-tests does. docs/plan.md explains every number.
"""
_MODEL_DEFAULTS = {"hidden": 8192, "sequence": 2048}


def add_parser(subparsers: Subparsers) -> None:
    """Add `plan` to the command line."""
    parser = subparsers.add_parser(
        "plan",
        help="link loads and ideal times of a trace on a topology",
        description="Map a trace, a collective or a described transformer onto a topology: bytes per link, port\n"
        "and flow, incast, ECMP collisions, ideal times. No traffic.",
        epilog=_EXAMPLE,
    )
    add_options(parser, GROUPS)
    _add_other_workloads(parser)
    _add_routing(parser)
    parser.add_argument("--json", action="store_true", help="print every link and flow as JSON")
    parser.set_defaults(handler=run)


def run(args: argparse.Namespace) -> int:
    """Make a plan; prints the table, or JSON.

    Raises:
        TraceError: the trace cannot be read or played.
        TopologyError: the topology is wrong.
        PlanError: the workload and the options do not fit together.
        InputError: a file of link loads cannot be read.
    """
    experiment = experiment_of(args)
    task = _task(args, experiment)
    topology = topology_without_host(experiment, ranks=task.traffic.ranks)
    for note in topology.notes:
        print(visible(f"charkha: {topology.source}: {note}"), file=sys.stderr)
    resolved = resolve(experiment, topology)
    router = Router(
        topology,
        seed=args.seed,
        weights=_weights(args.link_loads, topology),
        flow_hash=_flow_hash(resolved, topology, task.traffic, seed=args.seed),
    )
    sending = _sending(resolved, topology)
    plan = make_plan(task.traffic, topology, router=router, overhead=resolved.overhead, sending=sending)
    jct_ns, note = _jct(task, plan)
    if args.json:
        print(json.dumps(plan_to_json(plan, jct_ns=jct_ns, jct_note=note), indent=2))
    else:
        out = console()
        out.print(render(plan, jct_ns=jct_ns, jct_note=note, width=out.width), highlight=False)
    return 0


def experiment_of(args: argparse.Namespace) -> Experiment:
    """The run that is planned; a collective or a transformer takes the place of a trace that is never opened.

    Raises:
        PlanError: not exactly one workload was given.
    """
    part = spec_part(args, GROUPS)
    trace = part.setdefault("job", {}).setdefault("trace", {})
    if sum(one is not None for one in (trace.get("path"), args.collective, args.transformer)) != 1:
        raise PlanError("give one of TRACE, --collective and --transformer")
    trace.setdefault("path", "")
    return build(part, GROUPS)


def _add_other_workloads(parser: Parser) -> None:
    group = parser.add_argument_group("instead of a trace")
    group.add_argument("--collective", choices=sorted(COLLECTIVES), metavar="C", help=", ".join(COLLECTIVES))
    group.add_argument("-n", dest="world", metavar="N", type=at_least(1), help="ranks that play the collective")
    group.add_argument("-b", "--bytes", metavar="SIZE", type=argument(parse_size), default=1 << 20, help="default: 1M")
    group.add_argument(
        "--group-size",
        metavar="M",
        type=at_least(1),
        advanced=True,
        help="play it in groups of M consecutive ranks at the same time (default: N)",
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


@dataclass(frozen=True, slots=True)
class _Task:
    """What to plan; `workload` is set for a trace."""

    traffic: Traffic
    workload: Workload | None = None


def _task(args: argparse.Namespace, experiment: Experiment) -> _Task:
    overrides = overrides_of(experiment.job)
    if args.transformer is not None:
        return _Task(traffic_of_transformer(args.transformer, overrides=overrides))
    if args.collective is None:
        assert experiment.job.trace is not None
        workload = load_from_files(experiment.job.trace).workload
        choice = AlgorithmChoice(workload, overrides)
        return _Task(traffic_of_workload(workload, name_of=choice.name_of), workload)
    if args.world is None:
        raise PlanError("--collective needs -n, the number of ranks that play it")
    size = args.bytes if args.collective != "barrier" else 0
    group_size = min(args.group_size or args.world, args.world)
    kind = COLLECTIVES[args.collective]
    return _Task(
        traffic_of_collective(kind, ranks=args.world, size_bytes=size, group_size=group_size, overrides=overrides)
    )


def _sending(resolved: Resolved, topology: Topology) -> Sending | None:
    """How `run` would send there; None if that depends on sockets, or the model does not cover it."""
    roce = resolved.roce
    if roce is None or not roce.window_bytes or roce.qps > 1 or roce.flow_rate_bps or roce.rate_cap_bps:
        return None
    return Sending(
        path_mtu=roce.path_mtu,
        message_bytes=resolved.message_bytes,
        window_packets=max(LEAST_WINDOW_PACKETS, roce.window_bytes // roce.path_mtu),
        timeout_ns=roce.connection(window_packets=1).timeout_ns,
        ipv6=topology.is_ipv6,
    )


def _weights(path: Path | None, topology: Topology) -> Any:
    if path is None:
        return None
    try:
        loads = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: the link loads cannot be read: {error}") from error
    if not isinstance(loads, Mapping) or not all(isinstance(load, int | float) for load in loads.values()):
        raise InputError(f'{path}: write link loads as {{"leaf0:u0 > spine0:d0": 1000}}')
    return weights_of(Paths(topology.network), loads)


def _flow_hash(resolved: Resolved, topology: Topology, traffic: Traffic, *, seed: int | None) -> LinuxHash | None:
    """The kernel's, if its choices can be known and there are few enough flows."""
    if resolved.roce is None:
        return None
    ports = roce_source_ports(resolved.roce.source_port, qps=resolved.roce.qps)
    flows = sum(operation.transfers * operation.groups for operation in traffic.operations)
    if ports is None or flows > MOST_FLOWS_AS_LINUX:
        return None
    return linux_hash(topology, seed=topology.network.ecmp_seed if seed is None else seed, source_ports=ports)


def _jct(task: _Task, plan: Plan) -> tuple[int | None, str]:
    """Least time of an iteration, and what it is made of."""
    if task.workload is not None:
        times = instance_ns(task.traffic, plan)
        note = "longest path of compute and ideal times by links"
        return (None if times is None else longest_path_ns(task.workload, communication_ns=times)), note
    if task.traffic.compute_ns:
        return plan.jct_ns, "compute and ideal times by links one after the other, of the slowest stage"
    return None, ""


def _transformer(text: str) -> Transformer:
    """The model of `layers=96,tensor=8,…`.

    Raises:
        ValueError: an unknown name, a value that is no number, or numbers that do not fit together.
    """
    known = {field.name: field.type for field in fields(Transformer)}
    values: dict[str, Any] = dict(_MODEL_DEFAULTS)
    for item in text.split(","):
        name, equals, value = item.strip().replace("-", "_").partition("=")
        if not equals or name not in known:
            raise ValueError(f"{item!r}: write NAME=VALUE with NAME one of {', '.join(known)}")
        values[name] = _model_value(name, value)
    if "layers" not in values:
        raise ValueError("layers=N is needed")
    values.setdefault("batch", values.get("data", 1) * values.get("micro_batches", 1))
    try:
        return Transformer(**values)
    except PlanError as error:
        raise ValueError(str(error)) from error


def _model_value(name: str, value: str) -> int | float | bool | PipelineSchedule:
    if name == "schedule":
        return PipelineSchedule(value)
    if name in ("recompute", "shard_optimizer"):
        return bool(int(value))
    try:
        return float(value) if name.startswith("device_") else int(value)
    except ValueError as error:
        raise ValueError(f"{name}={value}: a number is needed") from error
