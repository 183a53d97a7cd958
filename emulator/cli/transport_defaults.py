"""Transport and its parameters: what the command line says, else the topology, else the defaults."""

from __future__ import annotations

import argparse
from dataclasses import fields

from agents.transports.base import DEFAULT_MESSAGE_BYTES
from agents.transports.catalogue import TRANSPORTS
from agents.transports.roce.options import RoceOptions
from emulator.cli.arguments import LARGEST_MESSAGE_BYTES
from emulator.errors import PlanError
from emulator.planner.overhead import roce_path_mtu
from emulator.topology.model import Topology
from emulator.units import parse_size

_MESSAGE_BYTES = "message_bytes"


def take_transport_defaults(args: argparse.Namespace, topology: Topology) -> None:
    """Fill in what the command line left open: `transport` and options that are None.

    A path MTU that nobody names is the largest that fits the links of the topology, where those have an MTU.

    Raises:
        PlanError: the topology names a parameter that the transport does not have.
    """
    said = {name.replace("-", "_"): value for name, value in topology.transport.items()}
    of_topology = said.pop("name", None)
    if args.transport is None:
        args.transport = of_topology or TRANSPORTS[0]
    if args.transport == of_topology:
        for name, value in said.items():
            _fill(args, _destination(args.transport, name, topology), value)
    args.message_bytes = _message_bytes(args.message_bytes, topology)
    if args.transport == "roce" and args.roce_path_mtu is None and topology.link_mtu is not None:
        largest = roce_path_mtu(topology.link_mtu, ipv6=topology.is_ipv6)
        args.roce_path_mtu = min(largest, RoceOptions().path_mtu)


def _destination(transport: str, name: str, topology: Topology) -> str:
    known = [field.name for field in fields(RoceOptions)] if transport == "roce" else []
    if name == _MESSAGE_BYTES:
        return name
    if name not in known:
        parameters = ", ".join([_MESSAGE_BYTES, *known])
        raise PlanError(f"{topology.source}: transport {transport} has no parameter {name!r}; it has {parameters}")
    return f"roce_{name}"


def _message_bytes(value: str | int | float | None, topology: Topology) -> int:
    if value is None:
        return DEFAULT_MESSAGE_BYTES
    try:
        size_bytes = parse_size(str(value))
    except ValueError as error:
        raise PlanError(f"{topology.source}: transport message_bytes: {error}") from error
    if not 1 <= size_bytes <= LARGEST_MESSAGE_BYTES:
        raise PlanError(f"{topology.source}: transport message_bytes: {value} is outside 1 byte to 1 GiB")
    return size_bytes


def _fill(args: argparse.Namespace, name: str, value: str | int | float | bool) -> None:
    if getattr(args, name) is None:
        setattr(args, name, value)
