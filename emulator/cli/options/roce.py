"""Options of the RoCE transport, for the commands that play."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from emulator.cli.options.arguments import argument, at_least
from emulator.control.parameter import Parameter
from emulator.errors import PlanError
from emulator.roce.constants import PATH_MTUS
from emulator.roce.dcqcn import PRESET_NAMES
from emulator.roce.options import (
    ECN_CODE_POINTS,
    FASTEST_BPS,
    MOST_QPS,
    NCCL_TIMEOUT,
    SOURCE_PORTS,
    RoceOptions,
    spelled,
)
from emulator.roce.rate_cap import NO_CAP
from emulator.units import parse_rate, parse_size

_DEFAULT = RoceOptions()


def add_roce_options(parser: argparse.ArgumentParser) -> None:
    """What `--transport roce` takes."""
    group = parser.add_argument_group("RoCE transport")

    def add(field: str, summary: str, *, default: str = "", **how: object) -> None:
        group.add_argument(
            f"--{spelled(field)}",
            dest=f"roce_{field}",
            default=None,
            help=f"{summary} (default: {default or getattr(_DEFAULT, field)})",
            **how,  # type: ignore[arg-type]
        )

    code_point: dict[str, Any] = {"metavar": "N", "type": at_least(0, most=63)}
    add("qps", "queue pairs per rank pair", metavar="N", type=at_least(1, most=MOST_QPS))
    add("path_mtu", "payload of a full packet, bytes", type=int, choices=PATH_MTUS)
    add(
        "window_bytes",
        "payload on its way per queue pair, as 512K",
        default="what the socket buffers allow, at most 8M",
        metavar="SIZE",
        type=argument(_window),
    )
    add(
        "call_bytes",
        "packets that the kernel is handed at a time, and a NIC may send back to back, at most, as 16K",
        default="64K; where ports have 200 Mbit/s or more what a lab's hosts let pass at once, at most 37,800",
        metavar="SIZE",
        type=argument(_call),
    )
    add(
        "qp_timeout", "t (1 to 31) of 4.096 µs · 2^t without an answer; nccl = 20", metavar="T", type=argument(_timeout)
    )
    add("retry_count", "retries before a peer is given up", metavar="N", type=at_least(0, most=7))
    add(
        "congestion",
        "congestion control",
        default="dcqcn where the topology gives every rank's port a rate, else none",
        choices=("none", "dcqcn"),
    )
    add("dcqcn_preset", "its values", choices=PRESET_NAMES)
    add(
        "flow_rate_bps",
        "most that one flow sends, as 10Gbit; DCQCN's line rate",
        default="no cap; for DCQCN the port's rate, or 100 Gbit/s where it has none",
        metavar="RATE",
        type=argument(_rate),
    )
    add(
        "rate_cap_bps",
        "most that the ranks at a port send together, headers included, as 25Gbit; off = no cap",
        default="the port's rate where the topology says it",
        metavar="RATE",
        type=argument(_rate_cap),
    )
    add("dscp", "code point of data", **code_point)
    add("ack_dscp", "code point of ACKs and NAKs", default="that of data, and its ECN code point", **code_point)
    add("cnp_dscp", "code point of CNPs", **code_point)
    add("ecn", "ECN code point of data", choices=tuple(ECN_CODE_POINTS))
    add("source_port", "UDP source ports", choices=SOURCE_PORTS)
    add("payload", "random payload is verified byte by byte", choices=("constant", "random"))
    add("receiver", "go-back-N, or takes packets out of order", choices=("gbn", "ooo"))
    add(
        "verify_every",
        "of so many merged receptions of constant payload one is verified in full",
        metavar="N",
        type=at_least(1, most=1 << 20),
    )


def roce_options(args: argparse.Namespace) -> tuple[Mapping[str, str], Mapping[str, Parameter]]:
    """What was asked for as text, and all effective values; nothing for another transport.

    Raises:
        PlanError: options of this transport where another one was chosen.
    """
    names = [field.name for field in fields(RoceOptions)]
    given = {name: str(value) for name in names if (value := getattr(args, f"roce_{name}", None)) is not None}
    if args.transport != "roce":
        if given:
            raise PlanError(f"--{spelled(next(iter(given)))} is for --transport roce, not for {args.transport}")
        return {}, {}
    options = RoceOptions.parse(given)
    described = options.described(getattr(args, "port_rates_bps", ()))
    parameters = {f"roce.{name}": Parameter(value, unit) for name, (value, unit) in described.items()}
    return {name: str(getattr(options, name)) for name in given}, parameters


def _timeout(text: str) -> int:
    return NCCL_TIMEOUT if text == "nccl" else at_least(0, most=31)(text)


def _window(text: str) -> int:
    return _within(parse_size(text), "a window has 1 byte to 1 GiB", least=1, most=1 << 30)


def _call(text: str) -> int:
    return _within(parse_size(text), "a call carries 1 byte (then a packet) to 64 KiB", least=1, most=1 << 16)


def _rate(text: str) -> int:
    return _within(parse_rate(text), "a flow sends 1 bit/s to 10 Tbit/s", least=1, most=FASTEST_BPS)


def _rate_cap(text: str) -> int:
    if text == "off":
        return NO_CAP
    return _within(parse_rate(text), "a port sends 1 bit/s to 10 Tbit/s, or off", least=1, most=FASTEST_BPS)


def _within(value: int, problem: str, *, least: int, most: int) -> int:
    if not least <= value <= most:
        raise ValueError(problem)
    return value
