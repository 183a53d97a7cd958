"""`charkha plan`: what a network would have to carry, and how long that takes at least. No traffic."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from emulator.cli.options.arguments import add_trace_options, argument, at_least
from emulator.errors import InputError, PlanError
from emulator.experiment.reading import read_workload
from emulator.experiment.transport_defaults import roce_options_of, slow_window_bytes
from emulator.planner.algorithms import parse_overrides
from emulator.planner.choice import AlgorithmChoice
from emulator.planner.network.ecmp import LinuxHash, linux_hash, roce_source_ports
from emulator.planner.network.overhead import (
    DEFAULT_MTU,
    WireOverhead,
    roce_path_mtu,
    transport_overhead,
)
from emulator.planner.network.plan import Plan, instance_ns, make_plan
from emulator.planner.network.queueing import Sending
from emulator.planner.network.routing import Router, weights_of
from emulator.planner.network.traffic import Traffic, traffic_of_collective, traffic_of_transformer, traffic_of_workload
from emulator.planner.workloads.pipeline import PipelineSchedule
from emulator.planner.workloads.transformer import Transformer
from emulator.roce.constants import DEFAULT_MESSAGE_BYTES, LEAST_WINDOW_PACKETS
from emulator.roce.options import RoceOptions
from emulator.topology.load import load_topology
from emulator.topology.model import Topology, default_loopback
from emulator.topology.paths import Paths
from emulator.trace.critical_path import longest_path_ns
from emulator.trace.model import CommKind, Workload
from emulator.units import parse_size
from emulator.views.as_json.plan import plan_to_json
from emulator.views.terminal.console import console
from emulator.views.terminal.plan_table import render
from emulator.visible import visible

if TYPE_CHECKING:
    from emulator.cli.options.arguments import Subparsers

_COLLECTIVES = {kind.label: kind for kind in CommKind if kind.is_collective}
_TRANSPORTS = ("roce", "zmq")
_LARGEST_SEED = (1 << 32) - 1
MOST_FLOWS_AS_LINUX = 1 << 22
"""Of more, plans take a hash that costs a tenth."""
_EXAMPLE = """examples:
  charkha plan lab/examples/transformer-8r --topology topologies/leaf-spine-2x2.yaml
  charkha plan --collective all_to_all -n 8 -b 8M --topology topologies/leaf-spine-2x2.yaml
  charkha plan --transformer layers=96,hidden=12288,tensor=8,pipeline=8,data=1563 --algorithm all_reduce=ring \\
      --topology topologies/leaf-spine-large.yaml

Sizes of --collective are those of nccl-tests. docs/plan.md says what every number means.
"""
_MODEL_DEFAULTS = {"hidden": 8192, "sequence": 2048}


def add_parser(subparsers: Subparsers) -> None:
    """Add `plan` to the command line."""
    parser = subparsers.add_parser(
        "plan",
        help="loads of links and ideal times of a trace on a topology",
        description="Lay a trace, a collective or a described transformer over a topology: bytes per link, port and "
        "flow, incast, ECMP collisions, ideal times. No traffic.",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_trace_options(parser, optional=True)
    _add_instead(parser)
    _add_network(parser)
    parser.add_argument("--json", action="store_true", help="the same facts as JSON on stdout, every link and flow")
    parser.set_defaults(handler=run)


def run(args: argparse.Namespace) -> int:
    """Make a plan; prints the table, or JSON.

    Raises:
        TraceError: the trace cannot be read or played.
        TopologyError: the topology is wrong.
        PlanError: what is asked for does not fit together.
        InputError: a file of link loads that cannot be read.
    """
    task = _task(args)
    topology = _topology(args, ranks=task.traffic.ranks)
    for note in topology.notes:
        print(visible(f"charkha: {topology.source}: {note}"), file=sys.stderr)
    router = Router(
        topology, seed=args.seed, weights=_weights(args, topology), flow_hash=_flow_hash(args, topology, task.traffic)
    )
    plan = make_plan(
        task.traffic, topology, router=router, overhead=_overhead(args, topology), sending=_sending(args, topology)
    )
    jct_ns, note = _jct(task, plan)
    if args.json:
        print(json.dumps(plan_to_json(plan, jct_ns=jct_ns, jct_note=note), indent=2))
    else:
        out = console()
        out.print(render(plan, jct_ns=jct_ns, jct_note=note, width=out.width), highlight=False)
    return 0


def _add_instead(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("instead of a trace")
    group.add_argument("--collective", choices=sorted(_COLLECTIVES), metavar="C", help=", ".join(_COLLECTIVES))
    group.add_argument("-n", dest="world", metavar="N", type=at_least(1), help="ranks that play the collective")
    group.add_argument("-b", "--bytes", metavar="SIZE", type=argument(parse_size), default=1 << 20, help="default: 1M")
    group.add_argument(
        "--group-size", metavar="M", type=at_least(1), help="in groups of M neighbouring ranks at once (default: N)"
    )
    group.add_argument(
        "--transformer",
        metavar="NAME=VALUE,…",
        type=argument(_transformer),
        help="one training iteration: layers, hidden, sequence, batch, tensor, pipeline, data and more, see generate",
    )


def _add_network(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("network")
    group.add_argument("--topology", metavar="FILE", type=Path, help="hosts, switches, links (default: loopback)")
    group.add_argument(
        "--allow-network", metavar="PREFIX", action="append", default=[], help="addresses the topology may name"
    )
    headers = "whose headers count (default: the topology's, or roce)"
    group.add_argument("--transport", choices=_TRANSPORTS, help=headers)
    group.add_argument("--mtu", metavar="N", type=at_least(576, most=65_535), help="default: the links', or 1500")
    group.add_argument(
        "--message-bytes", metavar="SIZE", type=argument(parse_size), help="payload of a RoCE message (default: 4M)"
    )
    group.add_argument(
        "--algorithm", metavar="COLLECTIVE=NAME", action="append", default=[], help="as all_reduce=ring (repeatable)"
    )
    group.add_argument(
        "--seed", metavar="N", type=at_least(0, most=_LARGEST_SEED), help="of the ECMP hash (default: the topology's)"
    )
    group.add_argument(
        "--link-loads",
        metavar="FILE",
        type=Path,
        help='JSON {"leaf0:u0 > spine0:d0": BYTES, …}: share equal-cost links as they were observed, not evenly',
    )


@dataclass(frozen=True, slots=True)
class _Task:
    """What to plan; `workload` where it is a trace."""

    traffic: Traffic
    workload: Workload | None = None


def _task(args: argparse.Namespace) -> _Task:
    asked = [name for name in ("trace", "collective", "transformer") if getattr(args, name) is not None]
    if len(asked) != 1:
        raise PlanError("give one of TRACE, --collective and --transformer")
    overrides = parse_overrides(args.algorithm)
    if args.trace is not None:
        _, workload = read_workload(args)
        choice = AlgorithmChoice(workload, overrides)
        return _Task(traffic_of_workload(workload, name_of=choice.name_of), workload)
    if args.transformer is not None:
        return _Task(traffic_of_transformer(args.transformer, overrides=overrides))
    if args.world is None:
        raise PlanError("--collective needs -n, how many ranks play it")
    size = args.bytes if args.collective != "barrier" else 0
    group_size = min(args.group_size or args.world, args.world)
    kind = _COLLECTIVES[args.collective]
    return _Task(
        traffic_of_collective(kind, ranks=args.world, size_bytes=size, group_size=group_size, overrides=overrides)
    )


def _topology(args: argparse.Namespace, *, ranks: int) -> Topology:
    if args.topology is None:
        return default_loopback(ranks)
    return load_topology(args.topology, ranks=ranks, allow_networks=args.allow_network)


def _overhead(args: argparse.Namespace, topology: Topology) -> WireOverhead:
    """Of the transport: what the command line says, else the topology, else the defaults."""
    said = topology.transport
    name = args.transport or str(said.get("name", _TRANSPORTS[0]))
    mtu = args.mtu or topology.link_mtu or DEFAULT_MTU
    message_bytes = args.message_bytes or int(said.get("message_bytes", DEFAULT_MESSAGE_BYTES))
    path_mtu = None if args.mtu or "path_mtu" not in said else int(said["path_mtu"])
    return transport_overhead(name, mtu=mtu, message_bytes=message_bytes, path_mtu=path_mtu, ipv6=topology.is_ipv6)


def _sending(args: argparse.Namespace, topology: Topology) -> Sending | None:
    """As `run` would send there; None where that depends on sockets, or is not what the model is of."""
    said = topology.transport
    name = said.get("name", _TRANSPORTS[0])
    if (args.transport or name) != "roce":
        return None
    options = roce_options_of(topology) if name == "roce" else RoceOptions()
    window_bytes = options.window_bytes or slow_window_bytes(topology)
    if window_bytes is None or options.qps > 1 or options.flow_rate_bps or options.rate_cap_bps:
        return None
    ipv6 = topology.is_ipv6
    path_mtu = roce_path_mtu(args.mtu or topology.link_mtu or DEFAULT_MTU, ipv6=ipv6)
    if "path_mtu" in said and not args.mtu:
        path_mtu = options.path_mtu
    return Sending(
        path_mtu=path_mtu,
        message_bytes=args.message_bytes or int(said.get("message_bytes", DEFAULT_MESSAGE_BYTES)),
        window_packets=max(LEAST_WINDOW_PACKETS, window_bytes // path_mtu),
        timeout_ns=options.connection(window_packets=1).timeout_ns,
        ipv6=ipv6,
    )


def _weights(args: argparse.Namespace, topology: Topology) -> Any:
    if args.link_loads is None:
        return None
    try:
        loads = json.loads(args.link_loads.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{args.link_loads}: the link loads cannot be read: {error}") from error
    if not isinstance(loads, Mapping) or not all(isinstance(load, int | float) for load in loads.values()):
        raise InputError(f'{args.link_loads}: write link loads as {{"leaf0:u0 > spine0:d0": 1000}}')
    return weights_of(Paths(topology.network), loads)


def _flow_hash(args: argparse.Namespace, topology: Topology, traffic: Traffic) -> LinuxHash | None:
    """The kernel's, where its choices can be known and flows are few enough."""
    said = topology.transport
    if (args.transport or said.get("name", _TRANSPORTS[0])) != "roce":
        return None
    ports = roce_source_ports(str(said.get("source_port", "fold")), qps=int(said.get("qps", 1)))
    flows = sum(operation.transfers * operation.groups for operation in traffic.operations)
    if ports is None or flows > MOST_FLOWS_AS_LINUX:
        return None
    seed = topology.network.ecmp_seed if args.seed is None else args.seed
    return linux_hash(topology, seed=seed, source_ports=ports)


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
