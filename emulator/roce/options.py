"""How the RoCE transport behaves: options as text, checked once, and as numbers with units."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from emulator.errors import PlanError
from emulator.roce.congestion import CongestionControl, FixedRate
from emulator.roce.constants import ACKS_PER_WINDOW, LEAST_WINDOW_PACKETS, PATH_MTUS
from emulator.roce.dcqcn import ReactionPoint, preset
from emulator.roce.messages import ConnectionSettings
from emulator.roce.rate_cap import NO_CAP, port_cap_bps
from emulator.roce.window import window_bytes
from emulator.units import parse_rate, parse_size

SOURCE_PORTS = ("fold", "fixed", "random", "message")
ECN_CODE_POINTS = {"off": 0, "ect1": 1, "ect0": 2}
NOMINAL_LINE_RATE_BPS = 100_000_000_000
"""DCQCN's line rate where nobody says any."""
FASTEST_BPS = 10**13
NCCL_TIMEOUT = 20
MOST_QPS = 64


@dataclass(frozen=True, slots=True)
class RoceOptions:
    """See `charkha run --help`.

    Attributes:
        qps: queue pairs per rank pair for payload; control has one more.
        path_mtu: payload of a full packet, bytes.
        qp_timeout: t of 4.096 µs · 2^t.
        dcqcn_preset: see emulator/roce/dcqcn.py.
        flow_rate_bps: what one flow sends at most, and DCQCN's line rate; 0: no cap.
        rate_cap_bps: what all ranks at a port send together at most, headers of every layer included; 0: the port's
            rate, where that is known; -1: no cap.
        dscp, ack_dscp, cnp_dscp: code points; ack_dscp -1 is dscp, and then ACKs carry the ECN code point too.
        ecn: code point of data.
        source_port: fold (of both queue pair numbers), fixed, random (seeded) per queue pair, or another per message.
        payload: constant or random.
        receiver: gbn, or ooo: takes packets that come early.
        window_bytes: payload on its way per queue pair; 0: 512 KiB to 8 MiB, by buffer and number of ranks.
        call_bytes: of packets that the kernel is handed at a time to cut, at most; 0: as many as it takes, 64 KB.
        verify_every: of so many merged receptions one is verified in full where the payload is constant.
    """

    qps: int = 1
    path_mtu: int = 4096
    qp_timeout: int = 14
    retry_count: int = 7
    congestion: str = "none"
    dcqcn_preset: str = "connectx"
    flow_rate_bps: int = 0
    rate_cap_bps: int = 0
    dscp: int = 26
    ack_dscp: int = -1
    cnp_dscp: int = 48
    ecn: str = "ect0"
    source_port: str = "fold"
    payload: str = "constant"
    receiver: str = "gbn"
    window_bytes: int = 0
    call_bytes: int = 0
    verify_every: int = 64

    def __post_init__(self) -> None:
        for name, (least, most) in _RANGES.items():
            if not least <= getattr(self, name) <= most:
                raise PlanError(f"--{spelled(name)} {getattr(self, name)}: from {least} to {most}")
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                raise PlanError(
                    f"--{spelled(name)} {getattr(self, name)}: there are {', '.join(str(c) for c in choices)}"
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

    @property
    def traffic_class(self) -> int:
        """TOS or traffic class of data."""
        return self.dscp << 2 | ECN_CODE_POINTS[self.ecn]

    def connection(self, *, window_packets: int, smallest_run: int = 1) -> ConnectionSettings:
        """The settings of every queue pair."""
        return ConnectionSettings(
            path_mtu=self.path_mtu,
            window_packets=window_packets,
            ack_interval=max(1, window_packets // ACKS_PER_WINDOW),
            smallest_run=max(1, min(smallest_run, window_packets // 8)),
            timeout_exponent=self.qp_timeout,
            retry_count=self.retry_count,
            is_ooo=self.receiver == "ooo",
            ooo_window=window_packets,
        )

    def window_packets(self, buffer_bytes: int, *, peers: int) -> int:
        """Packets that a queue pair may have on its way; see `emulator.roce.window.window_bytes`."""
        size = self.window_bytes or window_bytes(buffer_bytes, peers=peers)
        return max(LEAST_WINDOW_PACKETS, size // self.path_mtu)

    def port_cap_bps(self, port_rate_bps: int | None) -> int:
        """What all ranks at a port of that rate send together at most, bit/s; 0: no cap."""
        return port_cap_bps(self.rate_cap_bps, port_rate_bps)

    def line_rate_bps(self, port_rate_bps: int | None) -> int:
        """Where DCQCN starts at a port of that rate: the lowest rate that is known, else a nominal one."""
        known = (self.flow_rate_bps, self.port_cap_bps(port_rate_bps), port_rate_bps)
        return min((rate for rate in known if rate), default=NOMINAL_LINE_RATE_BPS)

    def cnp_gap_ns(self, port_rate_bps: int | None = None) -> int:
        """Smallest gap between CNPs of one flow to a port of that rate."""
        return preset(self.dcqcn_preset, line_rate_bps=self.line_rate_bps(port_rate_bps)).cnp_gap_ns

    def congestion_maker(self, port_rate_bps: int | None = None) -> Callable[[], CongestionControl]:
        """Makes the congestion control of one queue pair at a port of that rate."""
        if self.congestion == "none":
            rate = self.flow_rate_bps or None
            return lambda: FixedRate(rate)
        parameters = preset(self.dcqcn_preset, line_rate_bps=self.line_rate_bps(port_rate_bps))
        return lambda: ReactionPoint(parameters)

    def described(self, port_rates_bps: Iterable[int | None] = ()) -> Mapping[str, tuple[str | int | float, str]]:
        """Effective values for the record: name → (value, unit); of ports with several rates, those of the fastest."""
        described: dict[str, tuple[str | int | float, str]] = {
            field.name: (getattr(self, field.name), _UNITS.get(field.name, "")) for field in fields(self)
        }
        fastest = max((rate for rate in port_rates_bps if rate), default=None)
        described["rate_cap_bps"] = (self.port_cap_bps(fastest), "bit/s")
        described["timeout_ns"] = (4096 << self.qp_timeout, "ns")
        if self.congestion == "dcqcn":
            values = preset(self.dcqcn_preset, line_rate_bps=self.line_rate_bps(fastest)).described()
            described |= {f"dcqcn.{name}": value for name, value in values.items()}
        return described


_RANGES = {
    "qps": (1, MOST_QPS),
    "qp_timeout": (1, 31),  # 0 would be: none at all
    "retry_count": (0, 7),
    "flow_rate_bps": (0, FASTEST_BPS),
    "rate_cap_bps": (NO_CAP, FASTEST_BPS),
    "dscp": (0, 63),
    "ack_dscp": (-1, 63),
    "cnp_dscp": (0, 63),
    "window_bytes": (0, 1 << 30),
    "call_bytes": (0, 1 << 16),
    "verify_every": (1, 1 << 20),
}
_CHOICES: dict[str, tuple[object, ...]] = {
    "path_mtu": PATH_MTUS,
    "congestion": ("none", "dcqcn"),
    "ecn": tuple(ECN_CODE_POINTS),
    "source_port": SOURCE_PORTS,
    "payload": ("constant", "random"),
    "receiver": ("gbn", "ooo"),
}
_UNITS = {
    "path_mtu": "bytes",
    "window_bytes": "bytes",
    "call_bytes": "bytes",
    "flow_rate_bps": "bit/s",
    "rate_cap_bps": "bit/s",
}


def spelled(name: str) -> str:
    """An option as the command line has it."""
    return name.removesuffix("_bps").replace("_", "-")


_WORDS = {("qp_timeout", "nccl"): NCCL_TIMEOUT, ("rate_cap_bps", "off"): NO_CAP}
"""Values that have a name."""


def _parsed(name: str, text: str, kind: type) -> str | int:
    if kind is str:
        return text
    try:
        return _WORDS[name, text] if (name, text) in _WORDS else _number(name, text)
    except ValueError as error:
        raise PlanError(f"--{spelled(name)} {text[:40]!r}: {_NEEDED.get(name, 'a whole number is needed')}") from error


_NEEDED = {
    "window_bytes": "a size is needed, as 512K",
    "call_bytes": "a size is needed, as 16K",
    "flow_rate_bps": "a rate with its unit is needed, as 10Gbit",
    "rate_cap_bps": "a rate with its unit is needed, as 10Gbit, or off",
}


def _number(name: str, text: str) -> int:
    if name.endswith("_bps"):
        return int(text) if text.lstrip("-").isdecimal() else parse_rate(text)
    return parse_size(text) if name.endswith("_bytes") else int(text)
