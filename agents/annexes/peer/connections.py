"""Connections by rdma_cm: queue pairs of both ends learn of each other by management datagrams.

Active: REQ → REP → RTU; passive: the same from the other end; either end ends it with DREQ → DREP. What is not answered
is sent again, as datagrams may be lost.

The datagrams go in and out at queue pair 1 of a NIC, the general services interface.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from agents.annexes.peer.cm import (
    GSI_Q_KEY,
    GSI_QPN,
    Drep,
    Dreq,
    Message,
    Mra,
    Rej,
    RejectReason,
    Rep,
    Req,
    Rtu,
    SidrRep,
    SidrReq,
    of_datagrams,
    pack_ip_cm,
    pack_mad,
    parse_mad,
    service_id,
)
from agents.nic.nic import SoftwareNic
from agents.nic.system_calls import SocketAddress
from emulator.errors import HostError, ProtocolError, RemoteProtocolError
from emulator.roce.connection.qp_facts import gid_of, packed
from emulator.roce.constants import FIRST_SOURCE_PORT, ICRC_BYTES, UDP_PORT
from emulator.roce.wire.headers import Bth, Deth
from emulator.roce.wire.icrc import UdpPath, icrc, recover_ip_id
from emulator.roce.wire.opcodes import Opcode
from emulator.roce.wire.packet import Problem, pack_icrc, pack_packet, parse_packet
from emulator.roce.wire.psn import ZERO_PSN, Psn, add

MadHandler: TypeAlias = Callable[[bytes, str], None]
"""Called with a management datagram and the address that it came from."""

_SOURCE_PORT = FIRST_SOURCE_PORT


class GeneralServices:
    """Sends and receives the management datagrams of a NIC.

    Args:
        nic: its packets for queue pair 1 come here.
        handler: takes datagrams whose ICRC and queue key are right.
    """

    def __init__(self, nic: SoftwareNic, handler: MadHandler) -> None:
        self._nic, self._handler = nic, handler
        self._psn = Psn(0)
        nic.gsi = self

    def receive(self, packet: memoryview, sender: SocketAddress) -> bool:
        """See DatagramReceiver."""
        parsed = parse_packet(packet)
        if isinstance(parsed, Problem) or parsed.bth.dest_qp != GSI_QPN or parsed.bth.opcode != Opcode.UD_SEND_ONLY:
            return False
        path = UdpPath(packed(sender[0]), packed(self._nic.host), sender[1])
        (deth,) = (header for header in parsed.extensions if isinstance(header, Deth))
        if deth.q_key != GSI_Q_KEY or recover_ip_id(path, packet[:-ICRC_BYTES], parsed.icrc) is None:
            return False
        self._handler(parsed.payload, sender[0])
        return True

    def send(self, mad: bytes, to: str) -> None:
        """Send a management datagram to an address.

        Raises:
            OSError, HostError: it cannot be sent.
        """
        path = UdpPath(packed(self._nic.host), packed(to), _SOURCE_PORT)
        bth = Bth(Opcode.UD_SEND_ONLY, self._psn, GSI_QPN)
        packet = pack_packet(bth, Deth(GSI_Q_KEY, GSI_QPN), payload=mad)
        sender = self._nic.context.senders.get(self._nic.host, _SOURCE_PORT)
        sender.send_whole(packet + pack_icrc(icrc(path, packet)), (to, UDP_PORT))
        self._psn = add(self._psn, 1)


RESEND_S = 0.5
RESPONSE_TIMEOUT = 17
"""What a request asks the peer for: to repeat its answer after 4.096 µs x 2^17, which is RESEND_S."""
TRIES = 8
_SERVICES = {1: "an unreliable connection (UC)", 2: "reliable datagrams (RD)", 3: "an extended connection (XRC)"}


class ConnectionRejected(RemoteProtocolError):
    """The peer rejects a connection; nobody may listen yet."""


@dataclass(frozen=True, slots=True)
class Local:
    """This end of a connection.

    Attributes:
        qpn: its queue pair.
        psn: with which the peer shall begin to send.
        path_mtu: bytes; of a request.
        max_rd_atomic: READs and atomics outstanding in either direction.
    """

    qpn: int
    psn: Psn
    path_mtu: int = 1024
    max_rd_atomic: int = 16


@dataclass(slots=True, eq=False)
class Connection:
    """A connection with a peer.

    Attributes:
        host: of the peer.
        local: this end.
        local_id, remote_id: of both ends.
        peer_qpn, path_mtu, max_rd_atomic: what the peer has reported.
        send_psn: with which this end shall begin to send.
        rejected: the reason, if the peer has rejected the request.
        answered: set by the answer to a request.
        ended: set once the peer has disconnected.
    """

    host: str
    local: Local
    local_id: int
    transaction: int
    remote_id: int = 0
    peer_qpn: int = 0
    send_psn: Psn = ZERO_PSN
    path_mtu: int = 1024
    max_rd_atomic: int = 16
    rejected: int | None = None
    answered: asyncio.Event = field(default_factory=asyncio.Event)
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    answer: Message | None = None  # what a duplicate of the peer's last message is answered with


Acceptor: TypeAlias = Callable[[Req, str], Local | None]
"""Called with a request and the address of the peer; returns this end, or None to reject."""


class ConnectionManager:
    """Makes and ends the connections of a NIC.

    Args:
        nic: see SoftwareNic.
        only: datagrams from other addresses are dropped, and not answered; None: all are taken.
        resend_s: until a datagram without an answer is sent again.
    """

    def __init__(self, nic: SoftwareNic, *, only: str | None = None, resend_s: float = RESEND_S) -> None:
        self._only, self._resend_s = only, resend_s
        self._host, self._gsi = nic.host, GeneralServices(nic, self._received)
        self._ids = itertools.count(random.getrandbits(31))
        self._connections: dict[int, Connection] = {}  # by local id
        self._acceptors: dict[int, Acceptor] = {}  # by service id
        self._accepted: asyncio.Queue[Connection | RemoteProtocolError] = asyncio.Queue()
        self._guid = random.getrandbits(64)

    async def connect(self, host: str, port: int, local: Local, *, private: bytes = b"") -> Connection:
        """Connect to a port of a peer.

        Raises:
            ConnectionRejected: the peer rejects it.
            RemoteProtocolError: the peer does not answer.
            HostError: a datagram cannot be sent.
        """
        connection = self._connection(host, local)
        source_port = FIRST_SOURCE_PORT | connection.local_id & 0x3FFF
        request = Req(
            local_id=connection.local_id,
            service_id=service_id(port),
            guid=self._guid,
            qpn=local.qpn,
            psn=local.psn,
            responder_resources=local.max_rd_atomic,
            initiator_depth=local.max_rd_atomic,
            path_mtu=local.path_mtu,
            gid=gid_of(self._host),
            peer_gid=gid_of(host),
            response_timeout=RESPONSE_TIMEOUT,
            private=pack_ip_cm(self._host, host, source_port) + private,
        )
        await self._ask(connection, request, what=f"port {port} of {host}")
        if connection.rejected is not None:
            reason = connection.rejected
            known = {one.value: one.name.lower().replace("_", " ") for one in RejectReason}
            raise ConnectionRejected(f"{host} rejects the connection to port {port}: {known.get(reason, reason)}")
        return connection

    def listen(self, port: int, accept: Acceptor) -> None:
        """Take connections to a port; `accepted` returns them."""
        self._acceptors[service_id(port)] = accept

    async def accepted(self) -> Connection:
        """The next connection that a peer has made.

        Raises:
            RemoteProtocolError: it asks for something else than a reliable connection.
        """
        made = await self._accepted.get()
        if isinstance(made, RemoteProtocolError):
            raise made
        return made

    async def disconnect(self, connection: Connection, *, again: bool = False) -> None:
        """End a connection; a peer that does not answer has ended it as well.

        Args:
            connection: one that was made.
            again: even if the peer has ended it: it waits for seconds if the answer to that was lost.
        """
        if connection.ended.is_set() and not again:
            return
        request = Dreq(local_id=connection.local_id, remote_id=connection.remote_id, remote_qpn=connection.peer_qpn)
        await self._is_answered(connection, request, tries=2)

    async def leave(self) -> None:
        """End all connections that the peers have not ended: they would send again to nobody. Never raises."""
        made = [one for one in self._connections.values() if one.remote_id and not one.ended.is_set()]
        await asyncio.gather(*map(self.disconnect, made), return_exceptions=True)

    async def _ask(self, connection: Connection, request: Message, *, what: str) -> None:
        if await self._is_answered(connection, request, tries=TRIES):
            return
        raise RemoteProtocolError(
            f"{what} does not answer: no reply to {TRIES} connection requests in {TRIES * self._resend_s:g} s; "
            "is a server running there?"
        )

    async def _is_answered(self, connection: Connection, request: Message, *, tries: int) -> bool:
        """Send a request until it is answered, at most so many times."""
        connection.answered.clear()
        for _ in range(tries):
            self._send(connection, request)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._resend_s):
                    await connection.answered.wait()
                    return True
        return False

    def _connection(self, host: str, local: Local) -> Connection:
        local_id = next(self._ids) & 0xFFFFFFFF
        connection = self._connections[local_id] = Connection(host, local, local_id, random.getrandbits(63))
        return connection

    def _send(self, connection: Connection, message: Message) -> None:
        try:
            self._gsi.send(pack_mad(message, connection.transaction), connection.host)
        except OSError as error:
            raise HostError(f"cannot send to {connection.host}: {error.strerror}") from error

    def _reply(self, message: Message | SidrRep, transaction: int, host: str) -> None:
        """Answer; if that cannot be sent, it is like a lost datagram."""
        with contextlib.suppress(OSError, HostError):
            self._gsi.send(pack_mad(message, transaction), host)

    # Receiving.

    def _received(self, mad: bytes, host: str) -> None:
        if self._only not in (None, host):
            return
        try:
            message, transaction = parse_mad(mad)
        except ProtocolError:
            return
        if isinstance(message, Req):
            self._requested(message, transaction, host)
            return
        if isinstance(message, SidrReq):
            self._asked_for_datagrams(message, transaction, host)
            return
        connection = self._connections.get(message.remote_id)
        if connection is None or connection.host != host:
            if isinstance(message, Dreq):  # the answer to an earlier one was lost
                self._reply(Drep(local_id=message.remote_id, remote_id=message.local_id), transaction, host)
            return
        self._continue(connection, message)

    def _requested(self, request: Req, transaction: int, host: str) -> None:
        for known in self._connections.values():
            if known.host == host and known.remote_id == request.local_id and known.answer is not None:
                self._reply(known.answer, transaction, host)  # the request again: the answer was lost
                return
        accept = self._acceptors.get(request.service_id)
        local = accept(request, host) if accept is not None and not request.service else None
        if local is None:
            reason = RejectReason.INVALID_SERVICE_ID if accept is None else RejectReason.CONSUMER
            if accept is not None and request.service:
                reason = RejectReason.INVALID_TRANSPORT_SERVICE_TYPE
                self._refuse(host, _SERVICES.get(request.service, f"transport service {request.service}"))
            self._reply(Rej(local_id=0, remote_id=request.local_id, rejected=0, reason=reason), transaction, host)
            return
        connection = self._connection(host, local)
        connection.transaction, connection.remote_id = transaction, request.local_id
        connection.peer_qpn, connection.send_psn = request.qpn, Psn(request.psn)
        connection.path_mtu = request.path_mtu
        connection.max_rd_atomic = max(1, min(request.responder_resources, local.max_rd_atomic))
        connection.answer = Rep(
            local_id=connection.local_id,
            remote_id=request.local_id,
            guid=self._guid,
            qpn=local.qpn,
            psn=local.psn,
            responder_resources=local.max_rd_atomic,
            initiator_depth=min(request.responder_resources, local.max_rd_atomic),
            rnr_retry_count=request.rnr_retry_count,
        )
        self._reply(connection.answer, transaction, host)
        self._accepted.put_nowait(connection)

    def _asked_for_datagrams(self, request: SidrReq, transaction: int, host: str) -> None:
        self._reply(SidrRep(request_id=request.request_id, status=1), transaction, host)
        if request.service_id in map(of_datagrams, self._acceptors):
            self._refuse(host, "unreliable datagrams (UD)")

    def _refuse(self, host: str, service: str) -> None:
        problem = f"{host} asks for {service}; only reliable connections (RC) are supported: change its options"
        self._accepted.put_nowait(RemoteProtocolError(problem))

    def _continue(self, connection: Connection, message: Message) -> None:
        answer: Message
        if isinstance(message, Rep):
            connection.remote_id = message.local_id
            connection.peer_qpn, connection.send_psn = message.qpn, Psn(message.psn)
            connection.path_mtu = connection.local.path_mtu
            connection.max_rd_atomic = max(1, min(message.responder_resources, connection.local.max_rd_atomic))
            answer = Rtu(local_id=connection.local_id, remote_id=message.local_id)
            self._reply(answer, connection.transaction, connection.host)
            connection.answered.set()
        elif isinstance(message, Dreq):
            answer = Drep(local_id=connection.local_id, remote_id=message.local_id)
            self._reply(answer, connection.transaction, connection.host)
            connection.ended.set()
        elif isinstance(message, Rej):
            connection.rejected = message.reason
            connection.answered.set()
            connection.ended.set()
        elif isinstance(message, Mra):
            return
        else:  # RTU, DREP
            connection.answered.set()
