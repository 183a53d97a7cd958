"""Background traffic of a run: what its schedules asked for, what its senders sent, what its receivers received."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from emulator.results.run_folder.flow_results import FlowResult

BEHIND = 0.99
"""A flow that sent less than this share of what was offered is behind its schedule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackgroundFlow:
    """A flow, from both of its ends; None: not counted, or not known because an end did not report.

    Attributes:
        name: that the run spec gave it, or None.
        sender, receiver: as the run spec names them.
        rate_bps: that was asked for. This and all other rates in bit/s are on the wire, with all headers.
        size_bytes: mean of the sizes, payload.
        offered_bps, offered_messages, offered_bytes: by its schedule until the job ended.
        sent_bps, sent_messages, sent_bytes: complete; acknowledged, where the transport acknowledges.
        received_bps, received_messages, received_bytes: complete at the receiver.
        packets, lost_packets: sent, and missed by the receiver.
        completions: messages whose time from due to complete is known; its median and 99th percentile.
        lateness_median_ns, lateness_p99_ns: of messages, from due to offered: the tester's part.
        duration_ns: from the start of the first iteration to the end of the job.
    """

    flow: int
    name: str | None
    sender: str
    receiver: str
    transport: str
    dscp: int | None
    pattern: str | None
    sizes: str | None
    size_bytes: int
    rate_bps: int | None
    offered_bps: float | None = None
    offered_messages: int | None = None
    offered_bytes: int | None = None
    sent_bps: float | None = None
    sent_messages: int | None = None
    sent_bytes: int | None = None
    received_bps: float | None = None
    received_messages: int | None = None
    received_bytes: int | None = None
    packets: int | None = None
    lost_packets: int | None = None
    completions: int | None = None
    completion_median_ns: float | None = None
    completion_p99_ns: float | None = None
    lateness_median_ns: float | None = None
    lateness_p99_ns: float | None = None
    start_ns: int | None = None
    duration_ns: int | None = None

    @property
    def is_behind(self) -> bool:
        """Whether it sent less than its schedule offered: the sender, or the network, did not keep up."""
        return self.sent_bytes is not None and self.sent_bytes < BEHIND * (self.offered_bytes or 0)


def background_flows(results: Iterable[FlowResult]) -> Iterator[BackgroundFlow]:
    """The flows of background traffic among all rows, in order."""
    ends: dict[int, dict[str, FlowResult]] = {}
    for row in results:
        if row.kind == "background" and row.direction in ("sent", "received"):
            ends.setdefault(row.flow, {})[row.direction] = row
    for _, rows in sorted(ends.items()):
        yield _joined(rows.get("sent"), rows.get("received"))


def _joined(sent: FlowResult | None, received: FlowResult | None) -> BackgroundFlow:
    known = sent or received
    assert known is not None
    timed = sent if sent is not None and sent.completions else received
    return BackgroundFlow(
        flow=known.flow,
        name=known.name,
        sender=known.host,
        receiver=known.peer,
        transport=known.verb,
        dscp=known.dscp,
        pattern=known.pattern,
        sizes=known.sizes,
        size_bytes=known.size_bytes,
        rate_bps=known.rate_bps,
        offered_bps=_get(sent, "offered_bps"),
        offered_messages=_get(sent, "offered_messages"),
        offered_bytes=_get(sent, "offered_bytes"),
        sent_bps=_get(sent, "wire_bps"),
        sent_messages=_get(sent, "messages"),
        sent_bytes=_get(sent, "bytes"),
        received_bps=_get(received, "wire_bps"),
        received_messages=_get(received, "messages"),
        received_bytes=_get(received, "bytes"),
        packets=_get(sent, "packets"),
        lost_packets=_get(received, "lost"),
        completions=_get(timed, "completions"),
        completion_median_ns=_get(timed, "completion_median_ns"),
        completion_p99_ns=_get(timed, "completion_p99_ns"),
        lateness_median_ns=_get(sent, "lateness_median_ns"),
        lateness_p99_ns=_get(sent, "lateness_p99_ns"),
        start_ns=known.start_ns,
        duration_ns=known.duration_ns,
    )


def _get(end: FlowResult | None, name: str) -> Any:
    return None if end is None else getattr(end, name)
