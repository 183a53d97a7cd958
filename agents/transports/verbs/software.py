"""The software NIC as an end of this transport: it speaks to RDMA devices, and to itself."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence

from agents.nic.channel import Channel, QueuePairOwner
from agents.nic.standalone import StandaloneNic
from agents.transports.verbs.nic import ReceiveRing, VerbsQpRecord
from emulator.control.parameter import Parameter
from emulator.roce.connection.memory import Access, Memory, MemoryRegion
from emulator.roce.connection.messages import ConnectionSettings, Message
from emulator.roce.connection.qp_facts import QpFacts
from emulator.roce.connection.queue_pair import QueuePair
from emulator.roce.constants import FIRST_SOURCE_PORT
from emulator.roce.options import RoceOptions
from emulator.roce.wire.psn import Psn

RING_ADDRESS = 0x10000
FIRST_WINDOW_PACKETS = 64
"""What the least capable device known takes without loss; the window grows from there."""
_LEAST_WINDOW_PACKETS = 16


class SoftwareQp:
    """A queue pair of the software NIC."""

    def __init__(
        self, alone: StandaloneNic, host: str, options: RoceOptions, ring: ReceiveRing, owner: QueuePairOwner, qpn: int
    ):
        self._alone, self._host, self._options, self._ring, self._owner = alone, host, options, ring, owner
        self._channel: Channel | None = None
        self.record = VerbsQpRecord(
            qpn=qpn,
            psn=random.getrandbits(24),
            rkey=random.getrandbits(32),
            address=RING_ADDRESS,
            slots=ring.slots,
            slot_bytes=ring.slot_bytes,
            path_mtu=options.path_mtu,
        )

    @property
    def channel(self) -> Channel | None:
        """The queue pair, once it is connected."""
        return self._channel

    def connect(self, peer: VerbsQpRecord, host: str) -> None:
        """See Qp."""
        own = self.record
        window = max(_LEAST_WINDOW_PACKETS, peer.slots * peer.slot_bytes // self._options.path_mtu)
        first = min(FIRST_WINDOW_PACKETS, window)
        settings = ConnectionSettings(
            path_mtu=self._options.path_mtu,
            window_packets=window,
            ack_interval=max(1, first // 2),
            timeout_exponent=self._options.qp_timeout,
            retry_count=self._options.retry_count,
            initial_window_packets=first,
        )
        region = MemoryRegion(rkey=own.rkey, address=own.address, length=self._ring.bytes, access=Access.WRITE)
        facts = QpFacts(
            host=self._host,
            peer_host=host,
            qpn=own.qpn,
            peer_qpn=peer.qpn,
            psn=Psn(own.psn),
            peer_psn=Psn(peer.psn),
            rkey=own.rkey,
            source_ports=(FIRST_SOURCE_PORT | (own.qpn ^ peer.qpn << 7) & 0x3FFF,),
        )
        pair = QueuePair(settings, facts.psn, facts.peer_psn, Memory([region]))
        self._channel = self._alone.nic.create_foreign(facts, pair, self._owner)

    def post(self, messages: Sequence[Message]) -> None:
        """See Qp."""
        channel = self._channel
        if channel is None or channel.is_dead:
            return
        for message in messages:
            channel.post(message)
        channel.send(time.monotonic_ns())
        self._alone.passes.watch()

    def close(self) -> None:
        """See Qp."""
        if self._channel is not None:
            self._channel.close()


class SoftwareRdmaNic:
    """The software NIC of an address.

    Args:
        host: numeric IP address, port 4791 of which is free.
        options: path MTU, timeout and DSCP count.
        ring: what every peer gets.

    Raises:
        HostError: the address is not on this host or its port is in use, or a limit is reached.
    """

    def __init__(self, host: str, options: RoceOptions, ring: ReceiveRing) -> None:
        self._host, self._options, self._ring = host, options, ring
        self._alone = StandaloneNic(host, options)
        self._alone.__enter__()
        self._next_qpn = random.randrange(0x100, 0x800000)
        self._is_closed = False

    def create(self, owner: QueuePairOwner) -> SoftwareQp:
        """See Nic."""
        self._next_qpn += 1
        return SoftwareQp(self._alone, self._host, self._options, self._ring, owner, self._next_qpn)

    def poll(self) -> None:
        """See Nic."""
        self._alone.nic.catch_up()

    def facts(self) -> Mapping[str, Parameter]:
        """See Nic."""
        return {"device": Parameter("software NIC"), "observed": Parameter("receiving process")}

    def close(self) -> None:
        """See Nic."""
        if not self._is_closed:
            self._is_closed = True
            self._alone.__exit__(None, None, None)
