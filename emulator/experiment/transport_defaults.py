"""Transport and its parameters: what the command line says, else the topology, else the defaults."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import fields

from agents.transports.base import DEFAULT_MESSAGE_BYTES
from agents.transports.catalogue import TRANSPORTS
from emulator.cli.options.arguments import LARGEST_MESSAGE_BYTES
from emulator.errors import PlanError
from emulator.lab.shaping import call_bytes
from emulator.planner.network.overhead import roce_path_mtu
from emulator.roce.options import RoceOptions, spelled
from emulator.topology.model import Topology
from emulator.units import BITS_PER_BYTE, NS_PER_S, parse_size

_MESSAGE_BYTES = "message_bytes"
WINDOW_NS = 40_000_000
"""Window at slow ports, as time at their rate: an answer is asked for every half of it, well within the time-out."""
USUAL_WINDOW_BYTES, LEAST_WINDOW_BYTES = 2 << 20, 64 << 10


def take_transport_defaults(args: argparse.Namespace, topology: Topology) -> None:
    """Fill in what the command line left open: `transport` and options that are None.

    A path MTU that nobody names is the largest that fits the links of the topology, where those have an MTU. Congestion
    control that nobody names is DCQCN where the port of every rank has a rate, which is its line rate; else none. A
    window that nobody names is WINDOW_NS at the slowest port, where that is less than usual.

    Raises:
        PlanError: the topology names a parameter that the transport does not have.
    """
    said = {name.replace("-", "_"): value for name, value in topology.transport.items()}
    of_topology = said.pop("name", None)
    if args.transport is None:
        args.transport = of_topology or TRANSPORTS[0]
    if args.transport == of_topology:
        for name, value in said.items():
            _fill(args, _destination(args.transport, name, topology), _as_text(value))
        _check(said, topology)
    args.message_bytes = _message_bytes(args.message_bytes, topology, transport=args.transport)
    if args.transport == "roce":
        _fill_from_links(args, topology)


def take_lab_defaults(args: argparse.Namespace) -> None:
    """Fill in what a run inside a lab left open: a call is what its hosts let pass as one piece.

    To be called after `take_transport_defaults`.
    """
    if args.transport == "roce" and args.roce_call_bytes is None and None not in args.port_rates_bps:
        args.roce_call_bytes = call_bytes(min(args.port_rates_bps))


def _fill_from_links(args: argparse.Namespace, topology: Topology) -> None:
    if args.roce_path_mtu is None and topology.link_mtu is not None:
        largest = roce_path_mtu(topology.link_mtu, ipv6=topology.is_ipv6)
        args.roce_path_mtu = min(largest, RoceOptions().path_mtu)
    args.port_rates_bps = {topology.rate_bps(rank) for rank in range(topology.ranks)}
    if args.roce_congestion is None and None not in args.port_rates_bps:
        args.roce_congestion = "dcqcn"
    if args.roce_window_bytes is None:
        args.roce_window_bytes = slow_window_bytes(topology)


def slow_window_bytes(topology: Topology) -> int | None:
    """The window where a port is slow; None where none is, or nobody says."""
    rates = [rate for rate in map(topology.rate_bps, range(topology.ranks)) if rate is not None]
    slowest_bytes = WINDOW_NS * min(rates, default=0) // (BITS_PER_BYTE * NS_PER_S)
    return max(LEAST_WINDOW_BYTES, slowest_bytes) if 0 < slowest_bytes < USUAL_WINDOW_BYTES else None


def roce_options_of(topology: Topology) -> RoceOptions:
    """What the topology says of its transport, which is roce.

    Raises:
        PlanError: a parameter that it does not have, or a value that cannot be.
    """
    said = {name.replace("-", "_"): value for name, value in topology.transport.items() if name != "name"}
    return _check(said, topology)


def _destination(transport: str, name: str, topology: Topology) -> str:
    """Where the command line keeps it; a rate is known with and without its unit, `rate_cap` and `rate_cap_bps`."""
    known = {spelled(field.name): field.name for field in fields(RoceOptions)} if transport == "roce" else {}
    field_name = known.get(spelled(name))
    if name == _MESSAGE_BYTES:
        return name
    if field_name is None:
        parameters = ", ".join([_MESSAGE_BYTES, *(one.replace("-", "_") for one in known)])
        raise PlanError(f"{topology.source}: transport {transport} has no parameter {name!r}; it has {parameters}")
    return f"roce_{field_name}"


def _as_text(value: str | int | float | bool) -> str:
    """As the command line would have it: YAML takes `off` for a boolean."""
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)


def _check(said: Mapping[str, str | int | float | bool], topology: Topology) -> RoceOptions:
    texts = {_destination("roce", name, topology): _as_text(value) for name, value in said.items()}
    try:
        return RoceOptions.parse(
            {name.removeprefix("roce_"): text for name, text in texts.items() if name != _MESSAGE_BYTES}
        )
    except PlanError as error:
        raise PlanError(f"{topology.source}: transport: {str(error).removeprefix('--')}") from error


def _message_bytes(value: str | int | None, topology: Topology, *, transport: str) -> int:
    if value is None:
        return DEFAULT_MESSAGE_BYTES[transport]
    try:
        size_bytes = parse_size(str(value))
    except ValueError as error:
        raise PlanError(f"{topology.source}: transport message_bytes: {error}") from error
    if not 1 <= size_bytes <= LARGEST_MESSAGE_BYTES:
        raise PlanError(f"{topology.source}: transport message_bytes: {value} is outside 1 byte to 1 GiB")
    return size_bytes


def _fill(args: argparse.Namespace, name: str, value: str) -> None:
    if getattr(args, name) is None:
        setattr(args, name, value)
