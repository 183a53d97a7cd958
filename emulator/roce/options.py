"""Options of the RoCE transport: range, unit and wording of each, as text and as numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from emulator.errors import PlanError
from emulator.option import TRUTH, Level, OptionFacts, option, options_of, spelled
from emulator.roce.connection.messages import ConnectionSettings
from emulator.roce.constants import ACKS_PER_WINDOW, LEAST_WINDOW_PACKETS, PATH_MTUS
from emulator.roce.dcqcn import PRESET_NAMES, ReactionPoint, preset
from emulator.roce.pacing import NO_CAP, CongestionControl, FixedRate, port_cap_bps, window_bytes
from emulator.roce.tuning import TIMELINE_ROWS
from emulator.units import NS_PER_S

SOURCE_PORTS = ("fold", "fixed", "random", "message")
ECN_CODE_POINTS = {"off": 0, "ect1": 1, "ect0": 2}
NOMINAL_LINE_RATE_BPS = 100_000_000_000
"""DCQCN's line rate if the port's is not known."""
FASTEST_BPS = 10**13
NCCL_TIMEOUT = 20
MOST_QPS = 64
MOST_ENTROPY_VALUES = 256
TIMELINE_BINS = {"off": 0, "1ms": NS_PER_S // 1000, "10ms": NS_PER_S // 100, "100ms": NS_PER_S // 10}


def timeline_bin_ns_after(bin_ns: int, *, flows: int, duration_ns: int, rows: int = TIMELINE_ROWS) -> int:
    """Longest bins in which so many flows that never pause were recorded for so long: they double until all fit.

    Between iterations they double as soon as three quarters are full, so that bins may also be half as long.

    Args:
        bin_ns: length at the beginning.
        rows: that are kept, at least two for each flow.
    """
    while 4 * flows * -(-duration_ns // bin_ns) > 3 * max(rows, 2 * flows):
        bin_ns *= 2
    return bin_ns


def _choice(default: str | int, choices: Iterable[str | int], summary: str, **more: Any) -> Any:
    return option(summary, default=default, choices=tuple(map(str, choices)), **more)


def number(default: int, least: int, most: int, summary: str, metavar: str = "N", **more: Any) -> Any:
    """A field that is a whole number from `least` to `most`; `more`: as of OptionFacts."""
    return option(summary, default=default, metavar=metavar, least=least, most=most, **more)


class TextOptions:
    """Options of a transport: a dataclass whose fields have facts, which bound the values and read them from text."""

    __slots__ = ()
    GROUP: ClassVar[str]

    def __post_init__(self) -> None:
        for name, facts in facts_of(type(self)).items():
            value = getattr(self, name)
            if facts.choices and str(value) not in facts.choices:
                raise PlanError(f"--{spelled(name)} {value}: there are {', '.join(facts.choices)}")
            is_number = isinstance(value, int) and not isinstance(value, bool)
            if not facts.choices and is_number and not facts.least <= value <= facts.most:
                raise PlanError(f"--{spelled(name)} {value}: from {facts.least} to {facts.most}")

    @classmethod
    def parse(cls, given: Mapping[str, str | int | float | bool]) -> Self:
        """Options from values, or from text as the command line has it.

        Raises:
            PlanError: an option that does not exist, or a value it cannot have.
        """
        known, values = facts_of(cls), dict[str, Any]()
        for name, value in given.items():
            if name not in known:
                raise PlanError(f"the {cls.GROUP} has no option {name!r}; it has {', '.join(known)}")
            is_text = isinstance(getattr(cls(), name), str)
            if isinstance(getattr(cls(), name), bool):
                values[name] = _read_switch(name, value)
                continue
            try:
                is_read = isinstance(value, int) and not is_text
                values[name] = value if is_read else str(value) if is_text else known[name].parse(str(value))
            except ValueError as error:
                raise PlanError(f"--{spelled(name)} {str(value)[:40]!r}: {known[name].needed}") from error
        return cls(**values)


def _read_switch(name: str, value: str | int | float | bool) -> bool:
    if str(value).lower() not in TRUTH:
        raise PlanError(f"--{spelled(name)} {str(value)[:40]!r}: it is on or off")
    return TRUTH[str(value).lower()]


def facts_of(kind: type) -> Mapping[str, OptionFacts]:
    """Name of each field → its facts."""
    return {one.name: one.facts for one in options_of(kind)}


@dataclass(frozen=True, slots=True)
class RoceOptions(TextOptions):
    """How the transport behaves. Of numbers, 0 (of `ack_dscp`, -1) leaves the choice to the transport."""

    GROUP = "RoCE transport"
    qps: int = number(1, 1, MOST_QPS, "queue pairs per rank pair")  # for payload: control has one more
    path_mtu: int = _choice(4096, PATH_MTUS, "payload of a full packet, bytes", unit="bytes")
    window_bytes: int = number(
        0, 0, 1 << 30, "unacknowledged payload per queue pair, for example 512K", "SIZE", unit="bytes",
        unset="what the socket buffers allow, at most 8M",
    )  # fmt: skip
    call_bytes: int = number(
        0, 0, 1 << 16, "largest GSO batch handed to the kernel, for example 16K; a NIC may send it back to back",
        "SIZE", unit="bytes", level=Level.EXPERT,
        unset="64K; in a lab with ports of 200 Mbit/s or more, what its hosts pass as a whole, at most 37,800",
    )  # fmt: skip
    qp_timeout: int = number(  # 0 would mean: never
        14, 1, 31, "t (1 to 31) of the ACK timeout 4.096 µs · 2^t; nccl = 20", "T", words={"nccl": NCCL_TIMEOUT},
        level=Level.EXPERT,
    )  # fmt: skip
    retry_count: int = number(7, 0, 7, "retries before the transfer fails", level=Level.EXPERT)
    congestion: str = _choice(
        "none", ("none", "dcqcn"), "congestion control",
        unset="dcqcn if the topology gives the port of every rank a rate, else none",
    )  # fmt: skip
    dcqcn_preset: str = _choice("connectx", PRESET_NAMES, "DCQCN parameters", level=Level.EXPERT)
    flow_rate_bps: int = number(
        0, 0, FASTEST_BPS, "rate limit of a flow, for example 10Gbit; also DCQCN's line rate", "RATE", unit="bit/s",
        unset="none; for DCQCN the port's rate, or 100 Gbit/s if it is not known",
    )  # fmt: skip
    rate_cap_bps: int = number(
        0, NO_CAP, FASTEST_BPS,
        "rate limit of all ranks at a port together, including headers, for example 25Gbit; off = none",
        "RATE", unit="bit/s", words={"off": NO_CAP}, unset="the port's rate, if the topology has it",
    )  # fmt: skip
    dscp: int = number(26, 0, 63, "DSCP of data")
    ack_dscp: int = number(
        -1, -1, 63, "DSCP of ACKs and NAKs", unset="that of data, with its ECN code point", level=Level.EXPERT
    )
    cnp_dscp: int = number(48, 0, 63, "DSCP of CNPs", level=Level.EXPERT)
    ecn: str = _choice("ect0", ECN_CODE_POINTS, "ECN code point of data", level=Level.EXPERT)
    source_port: str = _choice("fold", SOURCE_PORTS, "UDP source ports")
    payload: str = _choice(
        "constant", ("constant", "random"), "random payload is verified byte by byte", level=Level.EXPERT
    )
    survive: bool = option(
        "go on over the second address of both ranks when retries are exhausted, and return (docs/faults.md)",
        default=False,
    )
    receiver: str = _choice("gbn", ("gbn", "ooo"), "go-back-N, or accept packets out of order")
    multipath: int = number(
        0, 0, MOST_ENTROPY_VALUES, "entropy values over which a queue pair sprays packets (docs/multipath.md)",
        "VALUES", unset="0: a reliable connection on one path",
    )  # fmt: skip
    entropy: str = _choice(
        "packet", ("packet", "batch"), "with --multipath: change the value after each packet or GSO batch",
        level=Level.EXPERT,
    )  # fmt: skip
    entropy_field: str = _choice(
        "port", ("port", "flow-label"), "with --multipath: UDP source port, or IPv6 flow label", level=Level.EXPERT
    )
    time_stamps: str = _choice(
        "reader", ("reader", "kernel"), "who stamps arriving packets: the agent as it reads them, or the kernel",
        level=Level.EXPERT,
    )  # fmt: skip
    split: str = _choice(
        "on", ("on", "off"), "split every time into network and tester, by the kernel's time stamps of messages",
        level=Level.EXPERT, unset="on, if ranks are on several hosts",
    )  # fmt: skip
    timeline: str = _choice(
        "off", TIMELINE_BINS, "record what every flow carries in bins of this length (docs/timeline.md)"
    )
    verify_every: int = number(
        64, 1, 1 << 20, "verify one in N merged receives of constant payload in full", level=Level.EXPERT
    )

    @property
    def splits(self) -> bool:
        """Whether the first packets that leave, and all that come, get time stamps of the kernel; not with spraying."""
        return self.split == "on" and not self.multipath

    @property
    def timeline_bin_ns(self) -> int:
        """Length of the bins in which flows are recorded; 0: they are not."""
        return TIMELINE_BINS[self.timeline]

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
        """Packets that a queue pair may have in flight; see `emulator.roce.pacing.window_bytes`."""
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


def check_option(field: str, text: str, *, kind: type[TextOptions]) -> str:
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
