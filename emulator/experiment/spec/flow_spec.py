"""Flows of a run spec: traffic alongside its jobs. The key `kind` tells them apart."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

import msgspec
from msgspec import Meta
from msgspec.structs import force_setattr

from emulator.errors import InputError
from emulator.flows.perftest_parameters import PeerTest, TestVerb, make_test
from emulator.option import setting
from emulator.roce.constants import PATH_MTUS
from emulator.schema import Section
from emulator.units import LARGEST_COUNT, digits, parse_duration, parse_fraction, parse_rate, parse_size

Count: TypeAlias = Annotated[int, Meta(ge=1, le=LARGEST_COUNT)]
Seconds: TypeAlias = Annotated[float, Meta(gt=0)]
Verb: TypeAlias = Literal["write", "send", "read", "write-lat", "send-lat", "read-lat"]
LARGEST_PATH_MTU = PATH_MTUS[-1]
PASSIVE_VERBS = ("write", "read", "read-lat")
"""Tests whose server only answers: it need not know when they end."""
_KEYS = {
    "size": "size_bytes", "iters": "iterations", "duration": "duration_s", "path-mtu": "path_mtu", "qps": "qps",
    "bidirectional": "bidirectional", "verb": "verb",
}  # fmt: skip
"""Option of `charkha agent peer` → key of a flow."""
_OPTION = re.compile(f"--({'|'.join(_KEYS)})")


class PerftestFlow(Section, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="perftest"):
    """A test with the perftest of a peer of the topology, alongside the job: from its first iteration to its last."""

    GROUP: ClassVar[str] = "flows"
    host: Annotated[str | tuple[str, ...], setting(
        "host of the topology that plays it, or `host:interface`; several: a flow each, N to 1", flags=""
    )]  # fmt: skip
    peer: Annotated[str, setting("host of the topology that runs perftest", flags="")]
    role: Annotated[
        Literal["client", "server"], setting("of this end; the client connects, and sends or reads", flags="")
    ] = "client"
    verb: Annotated[Verb, setting("as `charkha agent peer --verb`", flags="")] = "write"
    size_bytes: Annotated[
        str | int | None, setting("bytes of a message", flags="", unset="64K, latency tests 2", read=parse_size)
    ] = None
    iterations: Annotated[Count | None, setting(
        "messages per queue pair", flags="", unset="as many as the job, or duration_s, gives time for"
    )] = None  # fmt: skip
    duration_s: Annotated[Seconds | None, setting("time to send, in place of iterations", flags="", unit="s")] = None
    qps: Annotated[Count, setting("queue pairs", flags="")] = 1
    path_mtu: Annotated[int | None, setting(
        "largest payload of a packet, bytes; the smaller one of both ends counts", flags="",
        unset="the largest that fits the links"
    )] = None  # fmt: skip
    bidirectional: Annotated[bool, setting("both ends send at once", flags="")] = False
    rdma_cm: Annotated[bool, setting("connect with rdma_cm, as perftest does with -R", flags="")] = False
    port: Annotated[Annotated[int, Meta(ge=1, le=65_535)] | None, setting(
        "of the exchange, at the server; several flows take consecutive ones", flags="",
        unset="the peer's in the topology"
    )] = None  # fmt: skip

    def __post_init__(self) -> None:
        if self.size_bytes is not None:
            force_setattr(self, "size_bytes", parse_size(str(self.size_bytes)))
        if not self.hosts:
            raise ValueError("host: list at least one")
        has_end = self.iterations is not None or self.duration_s is not None
        if not has_end and self.role == "client" and (self.bidirectional or self.verb not in PASSIVE_VERBS):
            both = "bidirectional" if self.bidirectional else f"verb {self.verb}"
            raise ValueError(f"{both}: give iterations or duration_s, so that the peer knows when to end")
        if not has_end and self.role == "server":
            raise ValueError("role server: the peer decides when to end: give iterations or duration_s")
        try:
            _ = self.test
        except InputError as error:
            raise ValueError(_OPTION.sub(lambda found: _KEYS[found[1]], str(error))) from None

    @property
    def kind(self) -> str:
        """What the key `kind` says."""
        return "perftest"

    @property
    def hosts(self) -> tuple[str, ...]:
        """One for each flow."""
        return (self.host,) if isinstance(self.host, str) else self.host

    @property
    def test(self) -> PeerTest:
        """What is run."""
        return make_test(
            TestVerb(self.verb),
            size_bytes=None if self.size_bytes is None else int(self.size_bytes),
            iterations=self.iterations,
            duration_s=self.duration_s,
            queue_pairs=self.qps,
            path_mtu=self.path_mtu or LARGEST_PATH_MTU,
            is_bidirectional=self.bidirectional,
            is_open_ended=True,
        )


Flow: TypeAlias = PerftestFlow
"""Kinds of flows; the key `kind` tells them apart."""


LARGEST_SIZE_BYTES = 1 << 30
DEFAULT_SIZE_BYTES = 64 << 10
DEFAULT_ON_NS = 10_000_000
SLOWEST_BPS, FASTEST_BPS = 1000, 10**13
_Hosts = str | tuple[str, ...]


class Background(Section, frozen=True, kw_only=True, omit_defaults=True):
    """Flows that send by a schedule of their own, whatever the network does: one from every sender to every receiver.

    Attributes:
        senders, receivers: hosts of the topology, `host:interface`, or ranks as `rank 3`; one or several.
        rate: of each flow, on the wire: all headers, preambles and gaps included, as the rate of a link. bit/s, text
            with a unit, or a share of the rate of the sender's port: `10 %`.
        name: for the table.
        pattern: poisson: exponential gaps; constant: equal gaps; incast: equal gaps, and all senders send at the same
            moments; on-off: messages at the rate `peak` during on periods, periods are exponential.
        sizes: of messages: fixed, or a published distribution.
        size: of `fixed`, bytes; None: 64 KiB.
        transport: what carries the messages.
        dscp: None: with roce that of the RoCE transport's data, else 0.
        peak: of on-off, on the wire, as `rate`; None: twice the rate.
        on_time: of on-off, the mean on period, ns or text with a unit; None: 10 ms.
    """

    senders: _Hosts = msgspec.field(name="from")
    receivers: _Hosts = msgspec.field(name="to")
    rate: str | int
    name: str = ""
    pattern: Literal["poisson", "constant", "incast", "on-off"] = "poisson"
    sizes: Literal["fixed", "web-search", "data-mining", "hadoop"] = "fixed"
    size: str | int | None = None
    transport: Literal["roce", "tcp", "udp"] = "roce"
    dscp: Annotated[int, Meta(ge=0, le=63)] | None = None
    peak: str | int | None = None
    on_time: str | int | None = None

    def __post_init__(self) -> None:
        for name in ("rate", "peak"):
            if isinstance(given := getattr(self, name), str) and not given.endswith("%"):
                force_setattr(self, name, parse_rate(given))
        if isinstance(self.on_time, str):
            force_setattr(self, "on_time", parse_duration(self.on_time))
        if self.size is not None:
            force_setattr(self, "size", parse_size(str(self.size)))
        if not self.pairs:
            raise ValueError("needs a host in from and a different one in to")
        _ = [bits_per_s(one, SLOWEST_BPS) for one in (self.rate, self.peak) if isinstance(one, str)]
        if isinstance(self.rate, int) and not SLOWEST_BPS <= self.rate <= FASTEST_BPS:
            raise ValueError(f"rate: {self.rate:,} bit/s is outside 1 kbit/s to 10 Tbit/s")
        if self.size is not None and self.sizes != "fixed":
            raise ValueError(f"size is for sizes: fixed, not for {self.sizes}")
        if not 1 <= self.size_bytes <= LARGEST_SIZE_BYTES:
            raise ValueError(f"size: {self.size_bytes:,} bytes are outside 1 byte to 1 GiB")
        if self.pattern != "on-off" and (self.peak, self.on_time) != (None, None):
            raise ValueError(f"peak and on_time are for pattern: on-off, not for {self.pattern}")
        if self.on_ns < 1:
            raise ValueError("on_time: give a time above 0")

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """Sender and receiver of every flow."""
        return list(self._pairs())

    def _pairs(self) -> Iterator[tuple[str, str]]:
        senders, receivers = (((one,) if isinstance(one, str) else one) for one in (self.senders, self.receivers))
        is_one_host = (*senders,) == (*receivers,)
        for receiver in receivers:
            yield from ((sender, receiver) for sender in senders if sender != receiver or is_one_host)

    @property
    def size_bytes(self) -> int:
        """Of a fixed message."""
        return DEFAULT_SIZE_BYTES if self.size is None else int(self.size)

    def rates_bps(self, port_rate_bps: int | None) -> tuple[int, int]:
        """The rate and the peak of a flow that is sent by a port of this rate, bit/s.

        Raises:
            ValueError: a share of a rate that nobody knows, or a peak that is not above the rate.
        """
        rate = bits_per_s(self.rate, port_rate_bps)
        peak = 2 * rate if self.peak is None else bits_per_s(self.peak, port_rate_bps)
        if peak <= rate:
            raise ValueError("peak must be above rate: the flow is off in between")
        return rate, peak

    @property
    def on_ns(self) -> int:
        """See `on_time`."""
        return DEFAULT_ON_NS if self.on_time is None else int(self.on_time)


def bits_per_s(rate: str | int, port_rate_bps: int | None) -> int:
    """A rate, or a share of that of a port.

    Raises:
        ValueError: the port has no rate, or the share is not above 0 % and below 100 %.
    """
    if isinstance(rate, int):
        return rate
    share = parse_fraction(rate)
    if port_rate_bps is None:
        raise ValueError(f"{rate} of the sender's port has no rate in the topology; give a rate such as 200Mbit")
    return round(share * port_rate_bps)


def parse_background(text: str) -> dict[str, Any]:
    """An entry of `background` from `from=h1+h2,to=h3,rate=200Mbit,pattern=incast`.

    Raises:
        ValueError: it has another form.
    """
    words = [word.partition("=") for word in text.split(",")]
    if not all(name and equals and value for name, equals, value in words):
        raise ValueError(f"{text!r}: write from=HOST,to=HOST,rate=200Mbit, with more keys after commas")
    found: dict[str, Any] = {name: value for name, _, value in words}
    if len(found) < len(words):
        raise ValueError(f"{text!r}: a key is given twice; join several hosts with +")
    for name in ("from", "to"):
        if "+" in found.get(name, ""):
            found[name] = found[name].split("+")
    if (dscp := digits(found.get("dscp", ""))) is not None:
        found["dscp"] = dscp
    return found
