"""What a perftest with a peer has shown: both directions of this end, and what the peer reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from emulator.flows.perftest_parameters import PeerTest


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """Messages of this end that the peer has acknowledged, and READs that it has answered.

    Attributes:
        messages, bytes: complete; payload, each byte once.
        start_ns: the first post, on CLOCK_MONOTONIC; 0: none.
        duration_ns: from the first post to the last completion.
        packets, retransmits: all packets sent (of a READ, its requests); those that repeated one.
        naks, rnr_naks, timeouts: why it went back.
        round_trips_ns: of a latency test, from a post to the answering message, or to the end of the READ.
    """

    messages: int = 0
    bytes: int = 0
    start_ns: int = 0
    duration_ns: int = 0
    packets: int = 0
    retransmits: int = 0
    timeouts: int = 0
    naks: int = 0
    rnr_naks: int = 0
    round_trips_ns: tuple[int, ...] = ()

    @property
    def bytes_per_s(self) -> float | None:
        """Goodput; None if nothing was sent."""
        return self.bytes / self.duration_ns * 1e9 if self.duration_ns else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """Messages of the peer that are complete here, and READs that it has requested.

    Attributes:
        messages, bytes: payload, each byte once.
        bytes_after_first: without those that were the first to arrive: what `duration_ns` carried.
        start_ns: the first arrival, on CLOCK_MONOTONIC; 0: none.
        duration_ns: from the first to the last arrival; 0 for READs, whose data leaves.
        duplicates: packets that had been received before.
        naks: sent to the peer.
        dropped: packets that were not for any open message, by reason.
    """

    messages: int = 0
    bytes: int = 0
    bytes_after_first: int = 0
    start_ns: int = 0
    duration_ns: int = 0
    duplicates: int = 0
    naks: int = 0
    dropped: Mapping[str, int] = field(default_factory=dict)

    @property
    def bytes_per_s(self) -> float | None:
        """Goodput between the first and the last arrival; None if there were not two."""
        return self.bytes_after_first / self.duration_ns * 1e9 if self.duration_ns else None


@dataclass(frozen=True, slots=True, kw_only=True)
class BandwidthReport:
    """The results of a bandwidth test as one end sends them.

    Attributes:
        size_bytes: payload of a message.
        iterations: messages of all queue pairs.
        peak, average: bandwidth in the unit that its user has chosen, which it does not send; peak 0: not measured.
        messages_per_us: message rate.
    """

    size_bytes: int
    iterations: int
    peak: float
    average: float
    messages_per_us: float

    @property
    def bytes_per_s(self) -> float:
        """Bandwidth, from the message rate."""
        return self.messages_per_us * 1e6 * self.size_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """Latencies of a test, ns; as perftest has them: half a round trip, for READs a whole one."""

    count: int
    least: float
    median: float
    p99: float
    largest: float

    @classmethod
    def of(cls, samples_ns: Sequence[int], *, divisor: int = 1) -> Latency | None:
        """Of samples, each divided by `divisor`; None without any."""
        if not samples_ns:
            return None
        values = np.asarray(samples_ns, dtype=np.float64) / divisor
        median, p99 = (float(value) for value in np.percentile(values, (50, 99)))
        return cls(count=len(values), least=float(values.min()), median=median, p99=p99, largest=float(values.max()))

    def to_json(self) -> dict[str, float]:
        """All figures as a document."""
        return {
            "samples": self.count,
            "min": self.least,
            "median": self.median,
            "p99": self.p99,
            "max": self.largest,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerResult:
    """A test with a peer.

    Attributes:
        test: what was run; its path MTU is the one that both ends agreed on.
        role: `client` or `server`, of this end.
        host, peer_host: addresses of both ends.
        peer_version: of the peer's perftest.
        sent, received: at this end.
        peer: what the peer reports of its own, if it does.
    """

    test: PeerTest
    role: str
    host: str
    peer_host: str
    peer_version: str
    sent: Sent
    received: Received
    peer: BandwidthReport | None = None

    @property
    def latency(self) -> Latency | None:
        """Of a latency test; None if no round trip was complete."""
        return Latency.of(self.sent.round_trips_ns, divisor=1 if self.test.verb.operation == "read" else 2)

    def to_json(self) -> dict[str, object]:
        """All facts as a document; units are in the names."""
        test, sent, received, latency, peer = self.test, self.sent, self.received, self.latency, self.peer
        return {
            "role": self.role,
            "host": self.host,
            "peer": {"host": self.peer_host, "tool": test.verb.tool, "version": self.peer_version},
            "test": {
                "verb": test.verb.value,
                "size_bytes": test.size_bytes,
                "iterations": test.iterations,
                "duration_s": test.duration_s,
                "queue_pairs": test.queue_pairs,
                "path_mtu_bytes": test.path_mtu,
                "bidirectional": test.is_bidirectional,
            },
            "sent": {
                "messages": sent.messages,
                "payload_bytes": sent.bytes,
                "duration_ns": sent.duration_ns,
                "bytes_per_s": sent.bytes_per_s,
                "packets": sent.packets,
                "retransmits": sent.retransmits,
                "timeouts": sent.timeouts,
                "naks": sent.naks,
                "rnr_naks": sent.rnr_naks,
            },
            "received": {
                "messages": received.messages,
                "payload_bytes": received.bytes,
                "duration_ns": received.duration_ns,
                "bytes_per_s": received.bytes_per_s,
                "duplicates": received.duplicates,
                "naks": received.naks,
                "dropped_packets": dict(received.dropped),
            },
            "latency_ns": latency and latency.to_json(),
            "peer_report": peer
            and {
                "size_bytes": peer.size_bytes,
                "messages": peer.iterations,
                "messages_per_s": peer.messages_per_us * 1e6,
                "bytes_per_s": peer.bytes_per_s,
            },
        }
