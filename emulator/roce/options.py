"""How the RoCE transport behaves: options as text, checked once, and as numbers with units."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from emulator.errors import PlanError
from emulator.roce.congestion import CongestionControl, FixedRate
from emulator.roce.constants import ACKS_PER_WINDOW, LEAST_WINDOW_PACKETS, PATH_MTUS
from emulator.roce.dcqcn import PRESET_NAMES, ReactionPoint, preset
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
class _Rule:
    """What an option may be: one of `choices`, or a whole number from `least` to `most`.

    Attributes:
        unit: bytes, bit/s or none: sizes and rates may be given as text with a unit.
        words: values that have a name.
    """

    choices: tuple[str | int, ...] = ()
    least: int = 0
    most: int = 0
    unit: str = ""
    words: Mapping[str, int] = field(default_factory=dict)

    def parse(self, text: str) -> int:
        """A number from text; ValueError if it is none."""
        if text in self.words:
            return self.words[text]
        if self.unit == "bit/s":
            return int(text) if text.lstrip("-").isdecimal() else parse_rate(text)
        return parse_size(text) if self.unit == "bytes" and not self.choices else int(text)

    @property
    def needed(self) -> str:
        """What text has to be, in words."""
        if self.unit == "bit/s":
            return f"a rate with its unit is needed, as 10Gbit{', or off' if self.words else ''}"
        return "a size is needed, as 512K" if self.unit == "bytes" and not self.choices else "a whole number is needed"


def _choice(default: Any, choices: Iterable[str | int], unit: str = "") -> Any:
    return field(default=default, metadata={"rule": _Rule(tuple(choices), unit=unit)})


def _number(default: int, least: int, most: int, unit: str = "", **words: int) -> Any:
    return field(default=default, metadata={"rule": _Rule((), least, most, unit, words)})


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

    qps: int = _number(1, 1, MOST_QPS)
    path_mtu: int = _choice(4096, PATH_MTUS, "bytes")
    qp_timeout: int = _number(14, 1, 31, nccl=NCCL_TIMEOUT)  # 0 would be: none at all
    retry_count: int = _number(7, 0, 7)
    congestion: str = _choice("none", ("none", "dcqcn"))
    dcqcn_preset: str = _choice("connectx", PRESET_NAMES)
    flow_rate_bps: int = _number(0, 0, FASTEST_BPS, "bit/s")
    rate_cap_bps: int = _number(0, NO_CAP, FASTEST_BPS, "bit/s", off=NO_CAP)
    dscp: int = _number(26, 0, 63)
    ack_dscp: int = _number(-1, -1, 63)
    cnp_dscp: int = _number(48, 0, 63)
    ecn: str = _choice("ect0", ECN_CODE_POINTS)
    source_port: str = _choice("fold", SOURCE_PORTS)
    payload: str = _choice("constant", ("constant", "random"))
    receiver: str = _choice("gbn", ("gbn", "ooo"))
    window_bytes: int = _number(0, 0, 1 << 30, "bytes")
    call_bytes: int = _number(0, 0, 1 << 16, "bytes")
    verify_every: int = _number(64, 1, 1 << 20)

    def __post_init__(self) -> None:
        for name, rule in RULES.items():
            value = getattr(self, name)
            if rule.choices and value not in rule.choices:
                raise PlanError(f"--{spelled(name)} {value}: there are {', '.join(map(str, rule.choices))}")
            if not rule.choices and not rule.least <= value <= rule.most:
                raise PlanError(f"--{spelled(name)} {value}: from {rule.least} to {rule.most}")

    @classmethod
    def parse(cls, texts: Mapping[str, str]) -> RoceOptions:
        """Options from text, as they cross the control stream.

        Raises:
            PlanError: an option that does not exist, or a value it cannot have.
        """
        values: dict[str, Any] = {}
        for name, text in texts.items():
            if name not in RULES:
                raise PlanError(f"the RoCE transport has no option {name!r}; it has {', '.join(RULES)}")
            rule, is_text = RULES[name], isinstance(getattr(cls(), name), str)
            try:
                values[name] = text if is_text else rule.parse(text)
            except ValueError as error:
                raise PlanError(f"--{spelled(name)} {text[:40]!r}: {rule.needed}") from error
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
            name: (getattr(self, name), rule.unit) for name, rule in RULES.items()
        }
        fastest = max((rate for rate in port_rates_bps if rate), default=None)
        described["rate_cap_bps"] = (self.port_cap_bps(fastest), "bit/s")
        described["timeout_ns"] = (4096 << self.qp_timeout, "ns")
        if self.congestion == "dcqcn":
            values = preset(self.dcqcn_preset, line_rate_bps=self.line_rate_bps(fastest)).described()
            described |= {f"dcqcn.{name}": value for name, value in values.items()}
        return described


RULES: Mapping[str, _Rule] = {field.name: field.metadata["rule"] for field in fields(RoceOptions)}


def spelled(name: str) -> str:
    """An option's name on the command line."""
    return name.removesuffix("_bps").replace("_", "-")
