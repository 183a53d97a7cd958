"""The options, sockets and buffers that all queue pairs of a process share."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

from agents.nic.reader import ReceiveBatch
from agents.nic.sockets import Senders
from agents.nic.system_calls import SendBatch
from agents.nic.timeline import TimelineLog
from emulator.host.clock import Clock
from emulator.roce.options import RoceOptions
from emulator.roce.tuning import CALLS_AT_ONCE, LARGEST_CALL_BYTES
from emulator.roce.wire.payload import Payload, Staging


@dataclass(slots=True)
class Context:
    """The state that all queue pairs of a process share.

    Attributes:
        buffer: receives every datagram; those of one system call are stored one after the other.
        drops: packets for no known queue pair, by reason.
        timeline: what queue pairs carry by time; None: it is not recorded.
        is_cutting: whether the kernel cuts calls into packets; False once it has refused.
    """

    options: RoceOptions
    clock: Clock
    senders: Senders
    payload: Payload
    staging: Staging
    buffer: memoryview = field(default_factory=lambda: memoryview(bytearray((CALLS_AT_ONCE + 1) * LARGEST_CALL_BYTES)))
    drops: Counter[str] = field(default_factory=Counter)
    is_cutting: bool = True
    timeline: TimelineLog | None = None
    _send_batches: dict[bool, SendBatch] = field(default_factory=dict)
    _receive_batches: dict[tuple[bool, bool], ReceiveBatch] = field(default_factory=dict)

    def with_path_mtu(self, path_mtu: int) -> Context:
        """The same for queue pairs of another path MTU, which are few."""
        if path_mtu == self.options.path_mtu:
            return self
        options = replace(self.options, path_mtu=path_mtu)
        payload = Payload(path_mtu=path_mtu, seed=None, call_bytes=options.call_bytes)
        staging = Staging(payload)
        return replace(self, options=options, payload=payload, staging=staging, _send_batches={}, _receive_batches={})

    def send_batch(self, *, is_v6: bool) -> SendBatch:
        """The batch that sends staged packets from sockets of an address family."""
        batch = self._send_batches.get(is_v6)
        if batch is None:
            batch = self._send_batches[is_v6] = SendBatch(self.staging, is_v6=is_v6)
        return batch

    def receive_batch(self, *, is_v6: bool, has_stamps: bool = False) -> ReceiveBatch:
        """The batch that receives several calls at once from sockets of an address family."""
        batch = self._receive_batches.get((is_v6, has_stamps))
        if batch is None:
            batch = self._receive_batches[is_v6, has_stamps] = ReceiveBatch(
                self.buffer,
                stride=self.payload.packet_bytes,
                per_call=self.payload.per_call,
                most=CALLS_AT_ONCE,
                is_v6=is_v6,
                has_stamps=has_stamps,
            )
        return batch


def make_context(*, options: RoceOptions, clock: Clock, senders: Senders, payload_seed: int | None) -> Context:
    """The context of a process; `payload_seed` None means constant payload."""
    payload = Payload(path_mtu=options.path_mtu, seed=payload_seed, call_bytes=options.call_bytes)
    timeline = TimelineLog(options.timeline_bin_ns) if options.timeline_bin_ns else None
    return Context(options, clock, senders, payload, Staging(payload), timeline=timeline)
