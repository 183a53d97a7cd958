"""A queue pair of the reliable connection: requester, responder, congestion control and pacer, without IO.

The owner calls `next_run` while there is something to send, hands in received packets, calls `handle_timer` at
`deadline_ns`, and takes what the responder delivered and owes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import InitVar, dataclass, field
from typing import Final

from emulator.roce.connection.memory import EVERYTHING, Memory
from emulator.roce.connection.messages import ConnectionSettings, Message, PacketRun
from emulator.roce.connection.requester import Requester
from emulator.roce.connection.responder import Responder
from emulator.roce.connection.send_queue import NEVER, SendQueue
from emulator.roce.dcqcn import NotificationPoint
from emulator.roce.pacing import CongestionControl, FixedRate, Pacer
from emulator.roce.tuning import CALM_PER_LEAD
from emulator.roce.wire.psn import ZERO_PSN, Psn

PACKET_OVERHEAD_BYTES: Final = 16
"""Transport header and ICRC of a MIDDLE packet, which a rate counts in addition to payload."""


@dataclass(slots=True, eq=False)
class QueuePair:
    """One end of a connection.

    Attributes:
        settings: see ConnectionSettings.
        send_psn, expect_psn: PSN of the first packet of either direction.
        memory: what the peer may access.
        congestion: sets the rate of what is sent; not limited by default.
        cnp_gap_ns: smallest gap between the CNPs this end sends.
        lead_ns: how long before its time a run may go at most, as long as congestion control allows the line rate;
            less at first and after a CNP, see CALM_PER_LEAD.
        completed: messages that answers have completed. The owner takes them and sets None again: no answer came.
        paced_until: when the pacer or a full window lets the next run go; NEVER if neither is waiting.
    """

    settings: ConnectionSettings
    send_psn: InitVar[Psn] = ZERO_PSN
    expect_psn: InitVar[Psn] = ZERO_PSN
    memory: InitVar[Memory] = EVERYTHING
    congestion: CongestionControl = field(default_factory=FixedRate)
    cnp_gap_ns: InitVar[int] = 50_000
    lead_ns: int = 0
    requester: SendQueue = field(init=False)
    responder: Responder = field(init=False)
    pacer: Pacer = field(default_factory=Pacer)
    notification: NotificationPoint = field(init=False)
    completed: Sequence[Message] | None = None
    paced_until: int = NEVER
    cnps_sent: int = 0
    cnps_received: int = 0
    ecn_marks: int = 0
    _line_rate_bps: float | None = field(init=False)  # at this rate the port spaces packets itself
    _packet_bytes: int = field(init=False)
    _calm_ns: int = 0
    _drops: Counter[str] | None = None

    def __post_init__(self, send_psn: Psn, expect_psn: Psn, memory: Memory, cnp_gap_ns: int) -> None:
        self.requester = Requester(self.settings, send_psn)
        self.responder = Responder(self.settings, expect_psn, memory)
        self.notification = NotificationPoint(cnp_gap_ns)
        self._line_rate_bps = None if isinstance(self.congestion, FixedRate) else self.congestion.rate_bps(0)
        self._packet_bytes = self.settings.path_mtu + PACKET_OVERHEAD_BYTES

    @property
    def is_paced(self) -> bool:
        """Whether anything but the window may delay what is sent."""
        return self.congestion.rate_bps(0) is not None

    def next_run(self, now: int, most: int) -> PacketRun | None:
        """At most `most` packets that may go now; None: nothing may."""
        rate = self.congestion.rate_bps(now)
        if rate is None:
            run = self.requester.next_run(now, most)
            self.paced_until = self.requester.opens_ns
            return run
        lead_ns = min(self.lead_ns, self._calm_ns // CALM_PER_LEAD) if rate == self._line_rate_bps else 0
        may_go_ns = self.pacer.next_ns - lead_ns
        if now < may_go_ns:
            self.paced_until = may_go_ns if self.requester.backlog else NEVER
            return None
        self.paced_until = NEVER
        longest = self.pacer.most_packets(rate_bps=rate, packet_bytes=self._packet_bytes, lead_ns=lead_ns)
        run = self.requester.next_run(now, min(most, longest))
        if run is None:
            self.paced_until = self.requester.opens_ns
        else:
            size = run.packets * self._packet_bytes
            if run.ends_message:
                size -= run.message.packets * (self._packet_bytes - PACKET_OVERHEAD_BYTES) - run.message.size
            self._calm_ns += self.pacer.charge(size, rate_bps=rate, now=now)
            self.congestion.sent(size, now)
        return run

    @property
    def deadline_ns(self) -> int:
        """When to call `handle_timer` and `next_run` again if nothing happens before; NEVER: nothing is due."""
        return min(self.requester.deadline_ns, self.paced_until)

    def acknowledge(self, psn: Psn, syndrome: int, now: int, msn: int | None = None) -> None:
        """Take an ACK or NAK; the messages it completes join `completed`."""
        done = self.requester.acknowledge(psn, syndrome, now, msn)
        self.completed = [*self.completed, *done] if self.completed else done

    def take_response(self, psn: Psn, now: int) -> None:
        """Take a packet of a READ response; the messages it completes join `completed`."""
        done = self.requester.take_response(psn, 1, now)
        self.completed = [*self.completed, *done] if self.completed else done

    def drop(self, reason: str, count: int = 1) -> None:
        """Count packets that came and are not wanted."""
        if self._drops is None:
            self._drops = Counter()
        self._drops[reason] += count

    @property
    def drops(self) -> Counter[str]:
        """Packets that came to this queue pair and were not wanted, by reason."""
        drops = Counter(self._drops or {})
        drops["refused"] += self.requester.refused_packets + self.responder.refused_packets
        return +drops

    def notified(self, now: int) -> None:
        """Take a CNP."""
        self.cnps_received += 1
        self._calm_ns = 0
        self.congestion.notified(now)

    def marked(self, packets: int, now: int) -> bool:
        """Packets came with the congestion mark; whether to send a CNP now."""
        self.ecn_marks += packets
        if not self.notification.marked(now):
            return False
        self.cnps_sent += 1
        return True
