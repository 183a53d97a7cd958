"""A queue pair of the multipath profile: one whose ends are those of the profile.

Two controls work together. DCQCN, if it is chosen, sets the rate of the queue pair, as for a reliable connection; the
window of each path decides which paths that rate goes to. So CNPs slow a queue pair down, and losses, trimmed packets
and marks move its packets away from the path where they happened.
"""

from __future__ import annotations

from dataclasses import InitVar, dataclass, field

from emulator.roce.connection.memory import Memory
from emulator.roce.connection.queue_pair import QueuePair
from emulator.roce.multipath.paths import Health
from emulator.roce.multipath.requester import MultipathRequester
from emulator.roce.multipath.responder import MultipathResponder
from emulator.roce.multipath.wire import SelectiveAck
from emulator.roce.wire.psn import Psn


@dataclass(slots=True, eq=False)
class MultipathPair(QueuePair):
    """One end of a connection.

    Attributes:
        health: which paths to the peer carry packets; None: there is one path.
        batch_packets: see MultipathRequester.
    """

    health: InitVar[Health | None] = None
    batch_packets: InitVar[int] = 1
    requester: MultipathRequester = field(init=False)
    responder: MultipathResponder = field(init=False)

    def __post_init__(
        self,
        send_psn: Psn,
        expect_psn: Psn,
        memory: Memory,
        cnp_gap_ns: int,
        health: Health | None,
        batch_packets: int,
    ) -> None:
        QueuePair.__post_init__(self, send_psn, expect_psn, memory, cnp_gap_ns)
        self.requester = MultipathRequester(
            self.settings, send_psn, health=health or Health(1), batch_packets=batch_packets
        )
        self.responder = MultipathResponder(self.settings, expect_psn, memory)

    def acknowledge_selectively(self, ack: SelectiveAck, now: int) -> None:
        """Take a selective acknowledgement; the messages it completes join `completed`."""
        done = self.requester.acknowledge_selectively(ack, now)
        self.completed = [*self.completed, *done] if self.completed else done

    def marked(self, packets: int, now: int) -> bool:
        """See QueuePair; the sender also learns which packets were marked, and so which paths."""
        self.responder.report_marks()
        return QueuePair.marked(self, packets, now)
