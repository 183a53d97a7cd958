"""Options of the RoCE transport, for the commands that play."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import fields

from agents.roce.dcqcn import PRESET_NAMES
from agents.roce.messages import PATH_MTUS
from agents.transports.roce.options import ECN_CODE_POINTS, MOST_QPS, SOURCE_PORTS, RoceOptions
from emulator.cli.arguments import argument, at_least
from emulator.errors import PlanError
from emulator.results.manifest import Parameter
from emulator.units import parse_rate

NCCL_TIMEOUT = 20
_DEFAULT = RoceOptions()


def add_roce_options(parser: argparse.ArgumentParser) -> None:
    """What `--transport roce` takes."""
    group = parser.add_argument_group("RoCE transport")

    def add(name: str, summary: str, **how: object) -> None:
        field = name.replace("-", "_")
        default = getattr(_DEFAULT, field)
        group.add_argument(
            f"--{name}",
            dest=f"roce_{field}",
            default=None,
            help=f"{summary} (default: {default})",
            **how,  # type: ignore[arg-type]
        )

    code_point = {"metavar": "N", "type": at_least(0, most=63)}
    add("qps", "queue pairs per rank pair", metavar="N", type=at_least(1, most=MOST_QPS))
    add("path-mtu", "payload of a full packet, bytes", type=int, choices=PATH_MTUS)
    add("qp-timeout", "t of 4.096 µs · 2^t without an answer; nccl = 20", metavar="T", type=argument(_timeout))
    add("retry-count", "retries before a peer is given up", metavar="N", type=at_least(0, most=7))
    add("congestion", "congestion control", choices=("none", "dcqcn"))
    add("dcqcn-preset", "its values", choices=PRESET_NAMES)
    add("dscp", "code point of data", **code_point)
    add("cnp-dscp", "code point of CNPs", **code_point)
    add("ecn", "ECN code point of data", choices=tuple(ECN_CODE_POINTS))
    add("source-port", "UDP source ports", choices=SOURCE_PORTS)
    add("payload", "random payload is verified byte by byte", choices=("constant", "random"))
    add("receiver", "go-back-N, or takes packets out of order", choices=("gbn", "ooo"))
    group.add_argument(
        "--flow-rate",
        dest="roce_rate_bps",
        metavar="RATE",
        type=argument(parse_rate),
        help="most that one flow sends, as 10Gbit; DCQCN's line rate (default: no cap, 100 Gbit/s for DCQCN)",
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
            option = "flow-rate" if "rate_bps" in given else next(iter(given)).replace("_", "-")
            raise PlanError(f"--{option} is for --transport roce, not for {args.transport}")
        return {}, {}
    described = RoceOptions.parse(given).described()
    return given, {f"roce.{name}": Parameter(value, unit) for name, (value, unit) in described.items()}


def _timeout(text: str) -> int:
    return NCCL_TIMEOUT if text == "nccl" else at_least(0, most=31)(text)
