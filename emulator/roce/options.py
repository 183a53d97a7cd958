"""Options of the RoCE transport: range, unit and wording of each, as text and as numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Self

from emulator.errors import PlanError
from emulator.roce.connection.messages import ConnectionSettings
from emulator.roce.connection.window import window_bytes
from emulator.roce.constants import ACKS_PER_WINDOW, LEAST_WINDOW_PACKETS, PATH_MTUS
from emulator.roce.rate.congestion import CongestionControl, FixedRate
from emulator.roce.rate.dcqcn import PRESET_NAMES, ReactionPoint, preset
from emulator.roce.rate.rate_cap import NO_CAP, port_cap_bps
from emulator.units import parse_rate, parse_size

SOURCE_PORTS = ("fold", "fixed", "random", "message")
ECN_CODE_POINTS = {"off": 0, "ect1": 1, "ect0": 2}
NOMINAL_LINE_RATE_BPS = 100_000_000_000
"""DCQCN's line rate if the port's is not known."""
FASTEST_BPS = 10**13
NCCL_TIMEOUT = 20
MOST_QPS = 64
MOST_ENTROPY_VALUES = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionFacts:
    """What an option may be, and its wording: one of `choices`, or a whole number from `least` to `most`.

    Attributes:
        summary: what it sets, with its unit, for help texts.
        metavar: stands for the value; "" if there are `choices`.
        unit: bytes, bit/s or none: sizes and rates may be given as text with a unit.
        words: values that have a name.
        unset: what holds without the option; "" for the field's own default.
    """

    summary: str
    metavar: str = ""
    choices: tuple[str, ...] = ()
    least: int = 0
    most: int = 0
    unit: str = ""
    words: Mapping[str, int] = field(default_factory=dict)
    unset: str = ""

    def parse(self, text: str) -> int:
        """A number from text; ValueError if it is not one."""
        if text in self.words:
            return self.words[text]
        if self.unit == "bit/s":
            return 0 if text == "0" else parse_rate(text)
        return parse_size(text) if self.unit == "bytes" and not self.choices else int(text)

    def spell(self, value: object) -> str:
        """Text that `parse` reads as this value."""
        words: dict[object, str] = {number: word for word, number in self.words.items()}
        return words.get(value) or (f"{value}bit" if self.unit == "bit/s" and value else str(value))

    @property
    def needed(self) -> str:
        """What text has to be, in words."""
        if self.unit == "bit/s":
            return f"give a rate with a unit, such as 10Gbit{', or off' if self.words else ''}"
        return "give a size, such as 512K" if self.unit == "bytes" and not self.choices else "give a whole number"

    def text(self, name: str, defaults: object) -> str:
        """Summary and default, for the help of the field of that name."""
        return f"{self.summary} (default: {self.unset or getattr(defaults, name)})"


def _choice(default: str | int, choices: Iterable[str | int], summary: str, **more: Any) -> Any:
    facts = OptionFacts(summary=summary, choices=tuple(map(str, choices)), **more)
    return field(default=default, metadata={"facts": facts})


def _number(default: int, least: int, most: int, summary: str, metavar: str = "N", **more: Any) -> Any:
    facts = OptionFacts(summary=summary, metavar=metavar, least=least, most=most, **more)
    return field(default=default, metadata={"facts": facts})


class TextOptions:
    """Options of a transport: a dataclass whose fields have facts, which bound the values and read them from text."""

    __slots__ = ()
    TRANSPORT: ClassVar[str]

    def __post_init__(self) -> None:
        for name, facts in facts_of(type(self)).items():
            value = getattr(self, name)
            if facts.choices and str(value) not in facts.choices:
                raise PlanError(f"--{spelled(name)} {value}: there are {', '.join(facts.choices)}")
            if not facts.choices and isinstance(value, int) and not facts.least <= value <= facts.most:
                raise PlanError(f"--{spelled(name)} {value}: from {facts.least} to {facts.most}")

    @classmethod
    def parse(cls, texts: Mapping[str, str]) -> Self:
        """Options from text, as they cross the control stream.

        Raises:
            PlanError: an option that does not exist, or a value it cannot have.
        """
        known, values = facts_of(cls), dict[str, Any]()
        for name, text in texts.items():
            if name not in known:
                raise PlanError(f"the {cls.TRANSPORT} transport has no option {name!r}; it has {', '.join(known)}")
            is_text = isinstance(getattr(cls(), name), str)
            try:
                values[name] = text if is_text else known[name].parse(text)
            except ValueError as error:
                raise PlanError(f"--{spelled(name)} {text[:40]!r}: {known[name].needed}") from error
        return cls(**values)


def facts_of(kind: Any) -> Mapping[str, OptionFacts]:
    """Name of each field → its facts."""
    return {one.name: one.metadata["facts"] for one in fields(kind)}


@dataclass(frozen=True, slots=True)
class RoceOptions(TextOptions):
    """How the transport behaves. Of numbers, 0 (of `ack_dscp`, -1) leaves the choice to the transport."""

    TRANSPORT = "RoCE"
    qps: int = _number(1, 1, MOST_QPS, "queue pairs per rank pair")  # for payload: control has one more
    path_mtu: int = _choice(4096, PATH_MTUS, "payload of a full packet, bytes", unit="bytes")
    window_bytes: int = _number(
        0, 0, 1 << 30, "unacknowledged payload per queue pair, for example 512K", "SIZE", unit="bytes",
        unset="what the socket buffers allow, at most 8M",
    )  # fmt: skip
    call_bytes: int = _number(
        0, 0, 1 << 16, "largest GSO batch handed to the kernel, for example 16K; a NIC may send it back to back",
        "SIZE", unit="bytes",
        unset="64K; in a lab with ports of 200 Mbit/s or more, what its hosts pass as a whole, at most 37,800",
    )  # fmt: skip
    qp_timeout: int = _number(  # 0 would mean: never
        14, 1, 31, "t (1 to 31) of the ACK timeout 4.096 µs · 2^t; nccl = 20", "T", words={"nccl": NCCL_TIMEOUT}
    )
    retry_count: int = _number(7, 0, 7, "retries before the transfer fails")
    congestion: str = _choice(
        "none", ("none", "dcqcn"), "congestion control",
        unset="dcqcn if the topology gives the port of every rank a rate, else none",
    )  # fmt: skip
    dcqcn_preset: str = _choice("connectx", PRESET_NAMES, "DCQCN parameters")
    flow_rate_bps: int = _number(
        0, 0, FASTEST_BPS, "rate limit of a flow, for example 10Gbit; also DCQCN's line rate", "RATE", unit="bit/s",
        unset="none; for DCQCN the port's rate, or 100 Gbit/s if it is not known",
    )  # fmt: skip
    rate_cap_bps: int = _number(
        0, NO_CAP, FASTEST_BPS,
        "rate limit of all ranks at a port together, including headers, for example 25Gbit; off = none",
        "RATE", unit="bit/s", words={"off": NO_CAP}, unset="the port's rate, if the topology has it",
    )  # fmt: skip
    dscp: int = _number(26, 0, 63, "DSCP of data")
    ack_dscp: int = _number(-1, -1, 63, "DSCP of ACKs and NAKs", unset="that of data, with its ECN code point")
    cnp_dscp: int = _number(48, 0, 63, "DSCP of CNPs")
    ecn: str = _choice("ect0", ECN_CODE_POINTS, "ECN code point of data")
    source_port: str = _choice("fold", SOURCE_PORTS, "UDP source ports")
    payload: str = _choice("constant", ("constant", "random"), "random payload is verified byte by byte")
    receiver: str = _choice("gbn", ("gbn", "ooo"), "go-back-N, or accept packets out of order")
    multipath: int = _number(
        0, 0, MOST_ENTROPY_VALUES, "entropy values over which a queue pair sprays packets (docs/multipath.md)",
        "VALUES", unset="0: a reliable connection on one path",
    )  # fmt: skip
    entropy: str = _choice(
        "packet", ("packet", "batch"), "with --multipath: change the value after each packet or GSO batch"
    )
    entropy_field: str = _choice(
        "port", ("port", "flow-label"), "with --multipath: UDP source port, or IPv6 flow label"
    )
    time_stamps: str = _choice(
        "reader", ("reader", "kernel"), "who stamps arriving packets: the agent as it reads them, or the kernel"
    )
    verify_every: int = _number(64, 1, 1 << 20, "verify one in N merged receives of constant payload in full")

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
        """Packets that a queue pair may have in flight; see `emulator.roce.connection.window.window_bytes`."""
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
            name: (getattr(self, name), facts.unit) for name, facts in OPTIONS.items()
        }
        fastest = max((rate for rate in port_rates_bps if rate), default=None)
        described["rate_cap_bps"] = (self.port_cap_bps(fastest), "bit/s")
        described["timeout_ns"] = (4096 << self.qp_timeout, "ns")
        if self.congestion == "dcqcn":
            values = preset(self.dcqcn_preset, line_rate_bps=self.line_rate_bps(fastest)).described()
            described |= {f"dcqcn.{name}": value for name, value in values.items()}
        return described


OPTIONS = facts_of(RoceOptions)


def spelled(name: str) -> str:
    """An option's name on the command line."""
    return name.removesuffix("_bps").replace("_", "-")


def check_option(field: str, text: str, *, kind: type[TextOptions] = RoceOptions) -> str:
    """The text of an option, if its value is valid.

    Args:
        field, text: the option and its value.
        kind: whose option it is.

    Raises:
        ValueError: the value is not valid; the message does not repeat the name of the option.
    """
    try:
        kind.parse({field: text})
    except PlanError as error:
        raise ValueError(str(error).partition(" ")[2]) from error
    return text
