"""How the RoCE transport behaves: options as text, checked once, and as numbers with units."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from agents.roce.congestion import CongestionControl, FixedRate
from agents.roce.dcqcn import ReactionPoint, preset
from agents.roce.messages import PATH_MTUS, ConnectionSettings
from emulator.errors import PlanError
from emulator.units import parse_rate

SOURCE_PORTS = ("fold", "fixed", "random", "message")
ECN_CODE_POINTS = {"off": 0, "ect1": 1, "ect0": 2}
NOMINAL_LINE_RATE_BPS = 100_000_000_000
MOST_QPS = 64


@dataclass(frozen=True, slots=True)
class RoceOptions:
    """See `charkha run --help`.

    Attributes:
        qps: queue pairs per rank pair for payload; control has one more.
        path_mtu: payload of a full packet, bytes.
        qp_timeout: t of 4.096 µs · 2^t.
        dcqcn_preset: see agents/roce/dcqcn.py.
        rate_bps: what one flow sends at most, and DCQCN's line rate; 0: no cap, and 100 Gbit/s for DCQCN.
        dscp, ack_dscp, cnp_dscp: code points; ack_dscp -1 is dscp, and then ACKs carry the ECN code point too.
        ecn: code point of data.
        source_port: fold (of both queue pair numbers), fixed, random (seeded) per queue pair, or another per message.
        payload: constant or random.
        receiver: gbn, or ooo: takes packets that come early.
        window_bytes: payload on its way per queue pair; 0: what the receiving socket's buffer allows, at most 2 MiB.
        sample: of so many merged receptions one is verified in full where the payload is constant.
    """

    qps: int = 1
    path_mtu: int = 4096
    qp_timeout: int = 14
    retry_count: int = 7
    congestion: str = "none"
    dcqcn_preset: str = "connectx"
    rate_bps: int = 0
    dscp: int = 26
    ack_dscp: int = -1
    cnp_dscp: int = 48
    ecn: str = "ect0"
    source_port: str = "fold"
    payload: str = "constant"
    receiver: str = "gbn"
    window_bytes: int = 0
    sample: int = 64

    def __post_init__(self) -> None:
        for name, (least, most) in _RANGES.items():
            if not least <= getattr(self, name) <= most:
                raise PlanError(f"--{_spelled(name)} {getattr(self, name)}: from {least} to {most}")
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                raise PlanError(
                    f"--{_spelled(name)} {getattr(self, name)}: there are {', '.join(str(c) for c in choices)}"
                )
        preset(self.dcqcn_preset, line_rate_bps=1.0)

    @classmethod
    def parse(cls, texts: Mapping[str, str]) -> RoceOptions:
        """Options from text, as they cross the control stream.

        Raises:
            PlanError: an option that does not exist, or a value it cannot have.
        """
        known: dict[str, Any] = {field.name: type(field.default) for field in fields(cls)}
        values: dict[str, Any] = {}
        for name, text in texts.items():
            if name not in known:
                raise PlanError(f"the RoCE transport has no option {name!r}; it has {', '.join(known)}")
            values[name] = _parsed(name, text, known[name])
        return cls(**values)

    def connection(self, *, window_packets: int, smallest_run: int = 1) -> ConnectionSettings:
        """The settings of every queue pair."""
        return ConnectionSettings(
            path_mtu=self.path_mtu,
            window_packets=window_packets,
            ack_interval=max(1, window_packets // 2),
            smallest_run=max(1, min(smallest_run, window_packets // 8)),
            timeout_exponent=self.qp_timeout,
            retry_count=self.retry_count,
            is_ooo=self.receiver == "ooo",
            ooo_window=window_packets,
        )

    @property
    def line_rate_bps(self) -> int:
        """Where DCQCN starts."""
        return self.rate_bps or NOMINAL_LINE_RATE_BPS

    @property
    def cnp_gap_ns(self) -> int:
        """Smallest gap between CNPs of one flow."""
        return preset(self.dcqcn_preset, line_rate_bps=self.line_rate_bps).cnp_gap_ns

    def congestion_maker(self) -> Callable[[], CongestionControl]:
        """Makes the congestion control of one queue pair."""
        if self.congestion == "none":
            rate = self.rate_bps or None
            return lambda: FixedRate(rate)
        parameters = preset(self.dcqcn_preset, line_rate_bps=self.line_rate_bps)
        return lambda: ReactionPoint(parameters)

    def described(self) -> Mapping[str, tuple[str | int | float, str]]:
        """Effective values for the record: name → (value, unit)."""
        described: dict[str, tuple[str | int | float, str]] = {
            field.name: (getattr(self, field.name), _UNITS.get(field.name, "")) for field in fields(self)
        }
        described["timeout_ns"] = (4096 << self.qp_timeout, "ns")
        if self.congestion == "dcqcn":
            values = preset(self.dcqcn_preset, line_rate_bps=self.line_rate_bps).described()
            described |= {f"dcqcn.{name}": value for name, value in values.items()}
        return described


_RANGES = {
    "qps": (1, MOST_QPS),
    "qp_timeout": (0, 31),
    "retry_count": (0, 7),
    "rate_bps": (0, 10**13),
    "dscp": (0, 63),
    "ack_dscp": (-1, 63),
    "cnp_dscp": (0, 63),
    "window_bytes": (0, 1 << 30),
    "sample": (1, 1 << 20),
}
_CHOICES: dict[str, tuple[object, ...]] = {
    "path_mtu": PATH_MTUS,
    "congestion": ("none", "dcqcn"),
    "ecn": tuple(ECN_CODE_POINTS),
    "source_port": SOURCE_PORTS,
    "payload": ("constant", "random"),
    "receiver": ("gbn", "ooo"),
}
_UNITS = {"path_mtu": "bytes", "window_bytes": "bytes", "rate_bps": "bit/s"}


def _spelled(name: str) -> str:
    return name.removesuffix("_bps").replace("_", "-")


def _parsed(name: str, text: str, kind: type) -> str | int:
    if kind is str:
        return text
    try:
        return parse_rate(text) if name == "rate_bps" and not text.isdecimal() else int(text)
    except ValueError as error:
        raise PlanError(f"--{_spelled(name)} {text[:40]!r}: a whole number is needed") from error
