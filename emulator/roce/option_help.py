"""What the options of the RoCE transport mean to a user: the wording of help texts and docs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from emulator.roce.constants import PATH_MTUS
from emulator.roce.dcqcn import PRESET_NAMES
from emulator.roce.options import ECN_CODE_POINTS, SOURCE_PORTS, RoceOptions


@dataclass(frozen=True, slots=True)
class OptionHelp:
    """One option.

    Attributes:
        summary: what it sets, with its unit.
        metavar: stands for the value; "" if there are `choices`.
        choices: all values there are; empty: any that fits.
        default: what holds without it; "" for the field's own default.
    """

    summary: str
    metavar: str = ""
    choices: tuple[str, ...] = ()
    default: str = ""

    def text(self, field: str) -> str:
        """Summary and default."""
        return f"{self.summary} (default: {self.default or getattr(RoceOptions(), field)})"


OPTIONS: Mapping[str, OptionHelp] = {
    "qps": OptionHelp("queue pairs per rank pair", "N"),
    "path_mtu": OptionHelp("payload of a full packet, bytes", choices=tuple(map(str, PATH_MTUS))),
    "window_bytes": OptionHelp(
        "unacknowledged payload per queue pair, for example 512K",
        "SIZE",
        default="what the socket buffers allow, at most 8M",
    ),
    "call_bytes": OptionHelp(
        "largest GSO batch handed to the kernel, for example 16K; a NIC may send it back to back",
        "SIZE",
        default="64K; in a lab with ports of 200 Mbit/s or more, what its hosts pass as one piece, at most 37,800",
    ),
    "qp_timeout": OptionHelp("t (1 to 31) of the ACK timeout 4.096 µs · 2^t; nccl = 20", "T"),
    "retry_count": OptionHelp("retries before the transfer fails", "N"),
    "congestion": OptionHelp(
        "congestion control",
        choices=("none", "dcqcn"),
        default="dcqcn if the topology gives the port of every rank a rate, else none",
    ),
    "dcqcn_preset": OptionHelp("DCQCN parameters", choices=tuple(PRESET_NAMES)),
    "flow_rate_bps": OptionHelp(
        "rate limit of a flow, for example 10Gbit; also DCQCN's line rate",
        "RATE",
        default="none; for DCQCN the port's rate, or 100 Gbit/s if it is not known",
    ),
    "rate_cap_bps": OptionHelp(
        "rate limit of all ranks at a port together, headers included, for example 25Gbit; off = none",
        "RATE",
        default="the port's rate, if the topology gives it",
    ),
    "dscp": OptionHelp("DSCP of data", "N"),
    "ack_dscp": OptionHelp("DSCP of ACKs and NAKs", "N", default="that of data, with its ECN code point"),
    "cnp_dscp": OptionHelp("DSCP of CNPs", "N"),
    "ecn": OptionHelp("ECN code point of data", choices=tuple(ECN_CODE_POINTS)),
    "source_port": OptionHelp("UDP source ports", choices=SOURCE_PORTS),
    "payload": OptionHelp("random payload is verified byte by byte", choices=("constant", "random")),
    "receiver": OptionHelp("go-back-N, or accept packets out of order", choices=("gbn", "ooo")),
    "verify_every": OptionHelp("verify one in N merged receives of constant payload in full", "N"),
}
"""Field of RoceOptions → its help."""
