"""A rank pair: a queue pair, and the transfers over it in both directions."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from agents.annexes.verbs.dialect import VerbsIncoming, VerbsOutgoing
from agents.annexes.verbs.nic import Nic, Qp, VerbsQpRecord
from agents.transports.base import EndpointEvents
from emulator.control.observations import FlowCounters
from emulator.errors import RemoteProtocolError
from emulator.roce.connection.messages import Delivered, Message


class VerbsLink:
    """One end of a rank pair.

    Args:
        rank, peer: this end and the other.
        host: address of the peer.
        nic: of this end.
        events: told what arrives and what is acknowledged.
        call_soon: calls from the event loop, unless the endpoint has been closed.

    Attributes:
        is_dirty: posted to since the last flush.
        needs_agreement: neither end has asked for a queue pair.
    """

    def __init__(
        self,
        rank: int,
        peer: int,
        host: str,
        nic: Nic,
        *,
        events: EndpointEvents,
        call_soon: Callable[[Callable[[], None]], None],
    ) -> None:
        self.rank, self.peer, self._host, self._events, self._call_soon = rank, peer, host, events, call_soon
        self.is_dirty, self.needs_agreement = False, True
        self._qp: Qp = nic.create(self)
        self.record = self._qp.record
        self._remote: VerbsQpRecord | None = None
        self._outgoing = VerbsOutgoing(slots=0, slot_bytes=1, address=0, rkey=0)
        self._incoming = VerbsIncoming(slots=self.record.slots)
        self._is_started = self._is_broken = False
        self._gone = ""  # why nothing can be posted any more, once the peer has closed
        self._last_ns = 0  # when the last acknowledgement came, or nothing was in flight

    # Agreeing.

    def connect(self, remote: VerbsQpRecord) -> None:
        """Set the other end of the queue pair; that both ends asked for it makes no difference.

        Raises:
            RemoteProtocolError: the ends do not fit each other.
            HostError: the device refuses.
        """
        if self._is_broken:
            return
        if self._remote is not None:
            if remote != self._remote:
                raise RemoteProtocolError("it gave two different queue pairs")
            return
        if remote.path_mtu != self.record.path_mtu:
            raise RemoteProtocolError(f"its path MTU is {remote.path_mtu}, that of this end {self.record.path_mtu}")
        self._remote = remote
        self._outgoing.grant(remote.slots, remote.slot_bytes, remote.address, remote.rkey)
        self._qp.connect(remote, self._host)

    def start(self) -> None:
        """The peer receives: send."""
        self._is_started = True
        self.send()

    def peer_closed(self) -> None:
        """The peer has closed its endpoint: fail now if something is under way, else at the next post."""
        if self._is_broken:
            return
        self._gone = "it has closed its endpoint"
        if not self._outgoing.is_idle:
            self.fail(self._gone)

    # Sending.

    def post(self, tag: int, size: int) -> None:
        """Queue a transfer."""
        if self._is_broken:
            return
        self._outgoing.post(tag, size)
        if self._gone:
            self.fail(self._gone)

    def send(self) -> None:
        """Send what may leave."""
        if not self._is_started or self._is_broken:
            return
        if not self._outgoing.is_waiting:
            self._last_ns = time.monotonic_ns()
        if messages := list(self._outgoing.next_messages()):
            self._qp.post(messages)

    @property
    def acknowledged_bytes(self) -> int:
        """Payload that the peer has."""
        return self._outgoing.acknowledged_bytes

    @property
    def silent_since_ns(self) -> int | None:
        """Since when the peer owes an acknowledgement without sending one; None: it owes none."""
        return self._last_ns if self._outgoing.is_waiting and not self._is_broken else None

    def counters(self) -> FlowCounters:
        """What this end has sent; packets are the device's affair."""
        outgoing = self._outgoing
        return FlowCounters(
            src=self.rank,
            dst=self.peer,
            bytes=outgoing.bytes,
            messages=outgoing.messages,
            qpn=None if self._remote is None else self._remote.qpn,
        )

    def close(self) -> None:
        """Stop at once."""
        self._is_broken = True
        self._qp.close()

    def fail(self, reason: str) -> None:
        """Give up, and report it from the event loop."""
        if not self._is_broken:
            self.close()
            self._call_soon(lambda: self._events.failed(self.peer, reason))

    # Events of the queue pair.

    def delivered(self, index: int, delivered: Delivered, now: int) -> None:
        """See Owner."""
        for _ in range(delivered.messages):
            if self._is_broken:
                return
            if delivered.imm is None:
                self.fail("it sent a message without immediate data: is it a different version?")
                return
            arrived = self._incoming.received(delivered.imm, delivered.size)
            if self._incoming.problem:
                self.fail(self._incoming.problem)
                return
            if arrived is not None:
                self._events.arrived(self.peer, arrived.tag, arrived.size, now)
        self._settle()

    def _settle(self) -> None:
        """Return slots that have been read, and send what slots that the peer has returned allow."""
        if self._is_broken:
            return
        if read := self._incoming.take_read():
            self._qp.post([self._outgoing.returned(read)])
        if self._incoming.credit:
            self._outgoing.credit(self._incoming.credit)
            self._incoming.credit = 0
            if not self._outgoing.is_consistent:
                self.fail("it returned more slots of its ring than were in use")
                return
            self.send()

    def completed(self, index: int, messages: Sequence[Message], now: int) -> None:
        """See Owner."""
        self._last_ns = now
        for tag in self._outgoing.acknowledged(len(messages)):
            if not self._is_broken:
                self._events.acknowledged(self.peer, tag, now)
        self.send()

    def broke(self, reason: str) -> None:
        """See Owner."""
        self.fail(reason)
