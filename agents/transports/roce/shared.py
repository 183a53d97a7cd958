"""What all queue pairs of a transport have in common: buffers, sockets, what is owed and what is under way."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from agents.transports.roce.batch import Batch
from agents.transports.roce.receptions import Receptions
from agents.transports.roce.sockets import Senders
from emulator.host.clock import Clock
from emulator.roce.options import ECN_CODE_POINTS, RoceOptions
from emulator.roce.runs import CALLS, LARGEST_CALL_BYTES, Inspection, Payload, Staging
from emulator.roce.single import ACK, WRITE

if TYPE_CHECKING:
    from agents.transports.roce.channel import Channel


CALLS_AT_ONCE = CALLS + 1
"""Full calls of one flow that are received one behind the other and looked at together: a turn's, and where there are
not so many, nothing more waits."""


@dataclass(slots=True)
class Shared:
    """What all channels of a transport have in common.

    Attributes:
        buffer: where every datagram is received, and those that are looked at together one behind the other;
            `write_head`, `ack_head`: the headers of a single packet at its start.
        drops: packets that were received and not wanted, by reason.
        active: channels with packets on their way.
        owing: channels whose responder owes a reply.
        unfinished: channels to ranks of this process that may have more to send.
    """

    options: RoceOptions
    clock: Clock
    senders: Senders
    payload: Payload
    staging: Staging
    inspection: Inspection
    buffer: memoryview
    write_head: memoryview
    ack_head: memoryview
    drops: Counter[str]
    active: set[Channel]
    owing: list[Channel]
    unfinished: deque[Channel]
    seed: int
    rkey: int
    is_cutting: bool = True
    batches: dict[bool, Batch] = field(default_factory=dict)
    all_receptions: dict[bool, Receptions] = field(default_factory=dict)

    def batch(self, *, is_v6: bool) -> Batch:
        """What sends runs to addresses of that kind."""
        batch = self.batches.get(is_v6)
        if batch is None:
            batch = self.batches[is_v6] = Batch(self.staging, is_v6=is_v6)
        return batch

    def receptions(self, *, is_v6: bool) -> Receptions:
        """What takes several calls at once from sockets of addresses of that kind."""
        receptions = self.all_receptions.get(is_v6)
        if receptions is None:
            receptions = self.all_receptions[is_v6] = Receptions(
                self.buffer,
                stride=self.staging.stride,
                per_call=self.payload.per_call,
                most=CALLS_AT_ONCE,
                is_v6=is_v6,
            )
        return receptions

    def reply(self) -> None:
        """Send every reply that is owed: control's must not come after those of payload that it overtook."""
        if self.owing:
            owing, self.owing = self.owing, []
            for channel in owing:
                channel.reply()


def shared_state(
    *, options: RoceOptions, clock: Clock, senders: Senders, seed: int, rkey: int, payload_seed: int | None
) -> Shared:
    """What the channels of one transport share."""
    payload = Payload(path_mtu=options.path_mtu, seed=payload_seed, call_bytes=options.call_bytes)
    staging = Staging(payload)
    buffer = bytearray((CALLS_AT_ONCE + 1) * LARGEST_CALL_BYTES)
    view = memoryview(buffer)
    return Shared(
        options=options,
        clock=clock,
        senders=senders,
        payload=payload,
        staging=staging,
        inspection=Inspection(buffer),
        buffer=view,
        write_head=view[: WRITE.size],
        ack_head=view[: ACK.size],
        drops=Counter(),
        active=set(),
        owing=[],
        unfinished=deque(),
        seed=seed,
        rkey=rkey,
    )


def data_traffic_class(options: RoceOptions) -> int:
    """TOS or traffic class of data."""
    return options.dscp << 2 | ECN_CODE_POINTS[options.ecn]
