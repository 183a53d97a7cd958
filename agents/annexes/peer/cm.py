"""Messages of the communication manager (rdma_cm), as management datagrams to queue pair 1.

A MAD of 256 bytes: header 24 | message 232. Fields of messages, in the order they stand there; bit fields share words.

Source: InfiniBand Architecture Specification, volume 1, chapter 12 (messages), section 13.4 (MADs); annex A11 (private
data of RDMA IP CM service).
"""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar, TypeAlias

from emulator.errors import ProtocolError
from emulator.roce.constants import PATH_MTUS

GSI_QPN = 1
"""The queue pair that management datagrams go to."""
GSI_Q_KEY = 0x8001_0000
MAD_BYTES, MAD_HEADER_BYTES = 256, 24

_MAD = struct.Struct(">BBBBHHQHHI")
_BASE_VERSION, _CM_CLASS, _CM_VERSION, _SEND = 1, 0x07, 2, 0x03
_TCP_PORT_SPACE, _UDP_PORT_SPACE = 0x0106_0000, 0x0111_0000


class CmAttribute(IntEnum):
    """Attribute ids of messages."""

    REQ = 0x10
    MRA = 0x11
    REJ = 0x12
    REP = 0x13
    RTU = 0x14
    DREQ = 0x15
    DREP = 0x16
    SIDR_REQ = 0x17
    SIDR_REP = 0x18


class RejectReason(IntEnum):
    """Why a peer rejects; the most frequent ones."""

    NO_QP = 1
    TIMEOUT = 4
    INVALID_SERVICE_ID = 8
    INVALID_TRANSPORT_SERVICE_TYPE = 9
    STALE_CONNECTION = 10
    INVALID_PATH_MTU = 26
    CONSUMER = 28


@dataclass(frozen=True, slots=True, kw_only=True)
class Req:
    """A request to connect.

    Attributes:
        local_id: of the sender.
        service_id: what it wants to connect to; see `service_id`.
        guid: of its adapter.
        qpn: its queue pair.
        psn: with which the peer shall begin to send to it.
        responder_resources, initiator_depth: READs and atomics that it answers, and that it sends, at once.
        path_mtu: bytes.
        gid, peer_gid: both ends, 16 bytes each.
        retry_count, rnr_retry_count, ack_timeout: for the queue pair; see ConnectionSettings.
        response_timeout: exponent of the time in which an answer is expected.
        service: of the queue pairs: 0 reliable connection, 1 unreliable connection.
        private: up to 92 bytes for the peer's application, the RDMA IP CM header among them.
    """

    attribute: ClassVar = CmAttribute.REQ
    layout: ClassVar = struct.Struct(">I4xQQ4xIIIIIHBBHH16s16sIBBBB44x92s")

    local_id: int
    service_id: int
    guid: int
    qpn: int
    psn: int
    responder_resources: int
    initiator_depth: int
    path_mtu: int
    gid: bytes
    peer_gid: bytes
    retry_count: int = 7
    rnr_retry_count: int = 7
    ack_timeout: int = 14
    response_timeout: int = 20
    service: int = 0
    private: bytes = b""

    def pack(self) -> bytes:
        """The 232 bytes of the message."""
        return self.layout.pack(
            self.local_id, self.service_id, self.guid, 0,
            self.qpn << 8 | self.responder_resources,
            self.initiator_depth,
            self.response_timeout << 3 | self.service << 1,
            self.psn << 8 | self.response_timeout << 3 | self.retry_count,
            0xFFFF, (PATH_MTUS.index(self.path_mtu) + 1) << 4 | self.rnr_retry_count, 15 << 4,
            0xFFFF, 0xFFFF, self.gid, self.peer_gid,
            0, 0, 64, 1 << 3, self.ack_timeout << 3, self.private,
        )  # fmt: skip

    @classmethod
    def unpack(cls, data: bytes) -> Req:
        """Read 232 bytes."""
        (
            local_id, service_id, guid, _, qpn, depth, flags, psn, _, mtu, _, _, _, gid, peer_gid, _, _, _, _, ack,
            private,
        ) = cls.layout.unpack(data)  # fmt: skip
        if not 1 <= mtu >> 4 <= len(PATH_MTUS):
            raise ProtocolError(f"a connection request has path MTU code {mtu >> 4}, which is none of 1 to 5")
        return cls(
            local_id=local_id,
            service_id=service_id,
            guid=guid,
            qpn=qpn >> 8,
            psn=psn >> 8,
            responder_resources=qpn & 0xFF,
            initiator_depth=depth & 0xFF,
            path_mtu=PATH_MTUS[(mtu >> 4) - 1],
            gid=gid,
            peer_gid=peer_gid,
            retry_count=psn & 7,
            rnr_retry_count=mtu & 7,
            ack_timeout=ack >> 3,
            response_timeout=psn >> 3 & 0x1F,
            service=flags >> 1 & 3,
            private=private,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Rep:
    """The answer that accepts a request; attributes as for Req."""

    attribute: ClassVar = CmAttribute.REP
    layout: ClassVar = struct.Struct(">IIIIIIBBBBQ196s")

    local_id: int
    remote_id: int
    guid: int
    qpn: int
    psn: int
    responder_resources: int
    initiator_depth: int
    rnr_retry_count: int = 7
    private: bytes = b""

    def pack(self) -> bytes:
        """The 232 bytes of the message."""
        return self.layout.pack(
            self.local_id, self.remote_id, 0, self.qpn << 8, 0, self.psn << 8,
            self.responder_resources, self.initiator_depth, 0, self.rnr_retry_count << 5, self.guid, self.private,
        )  # fmt: skip

    @classmethod
    def unpack(cls, data: bytes) -> Rep:
        """Read 232 bytes."""
        local_id, remote_id, _, qpn, _, psn, resources, depth, _, rnr, guid, private = cls.layout.unpack(data)
        return cls(
            local_id=local_id,
            remote_id=remote_id,
            guid=guid,
            qpn=qpn >> 8,
            psn=psn >> 8,
            responder_resources=resources,
            initiator_depth=depth,
            rnr_retry_count=rnr >> 5,
            private=private,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pair:
    """A message with both ids and nothing else that matters here."""

    attribute: ClassVar[CmAttribute]
    layout: ClassVar = struct.Struct(">II224x")

    local_id: int
    remote_id: int

    def pack(self) -> bytes:
        """The 232 bytes of the message."""
        return self.layout.pack(self.local_id, self.remote_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rtu(_Pair):
    """Ready to use: the requester has taken the answer."""

    attribute: ClassVar = CmAttribute.RTU


@dataclass(frozen=True, slots=True, kw_only=True)
class Drep(_Pair):
    """The answer to a request to disconnect."""

    attribute: ClassVar = CmAttribute.DREP


@dataclass(frozen=True, slots=True, kw_only=True)
class Mra(_Pair):
    """Message received: the answer takes longer."""

    attribute: ClassVar = CmAttribute.MRA


@dataclass(frozen=True, slots=True, kw_only=True)
class Dreq(_Pair):
    """A request to disconnect; `remote_qpn`: queue pair of the peer."""

    attribute: ClassVar = CmAttribute.DREQ
    layout: ClassVar = struct.Struct(">III220x")

    remote_qpn: int

    def pack(self) -> bytes:
        """The 232 bytes of the message."""
        return self.layout.pack(self.local_id, self.remote_id, self.remote_qpn << 8)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rej(_Pair):
    """A request or an answer is rejected; `rejected`: 0 a REQ, 1 a REP, 2 other."""

    attribute: ClassVar = CmAttribute.REJ
    layout: ClassVar = struct.Struct(">IIBBH220x")

    rejected: int
    reason: int

    def pack(self) -> bytes:
        """The 232 bytes of the message."""
        return self.layout.pack(self.local_id, self.remote_id, self.rejected << 6, 0, self.reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class SidrReq:
    """A request for the queue pair of a service of unreliable datagrams."""

    attribute: ClassVar = CmAttribute.SIDR_REQ
    layout: ClassVar = struct.Struct(">I4xQ216x")

    request_id: int
    service_id: int

    def pack(self) -> bytes:
        """The 232 bytes of the message."""
        return self.layout.pack(self.request_id, self.service_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class SidrRep:
    """The answer to it; `status`: 0 it is there, 1 it is not supported."""

    attribute: ClassVar = CmAttribute.SIDR_REP
    layout: ClassVar = struct.Struct(">IB227x")

    request_id: int
    status: int

    def pack(self) -> bytes:
        """The 232 bytes of the message."""
        return self.layout.pack(self.request_id, self.status)


Message: TypeAlias = Req | Rep | Rtu | Dreq | Drep | Mra | Rej | SidrReq

_PAIRS: Mapping[int, type[Rtu] | type[Drep] | type[Mra]] = {
    CmAttribute.RTU: Rtu,
    CmAttribute.DREP: Drep,
    CmAttribute.MRA: Mra,
}


def pack_mad(message: Message | SidrRep, transaction: int) -> bytes:
    """A message as a MAD of 256 bytes."""
    header = _MAD.pack(_BASE_VERSION, _CM_CLASS, _CM_VERSION, _SEND, 0, 0, transaction, message.attribute, 0, 0)
    return header + message.pack()


def parse_mad(data: bytes) -> tuple[Message, int]:
    """The message and the transaction id of a MAD.

    Raises:
        ProtocolError: it is not a message of the communication manager, or one that is not known here.
    """
    if len(data) != MAD_BYTES:
        raise ProtocolError(f"a management datagram has {len(data)} bytes, not {MAD_BYTES}")
    _, class_, version, method, _, _, transaction, attribute, _, _ = _MAD.unpack_from(data)
    if (class_, version, method) != (_CM_CLASS, _CM_VERSION, _SEND):
        raise ProtocolError(f"a management datagram of class {class_:#x}, version {version}, method {method:#x}")
    return _parse(attribute, data[MAD_HEADER_BYTES:]), transaction


def _parse(attribute: int, body: bytes) -> Message:
    if attribute == CmAttribute.REQ:
        return Req.unpack(body)
    if attribute == CmAttribute.REP:
        return Rep.unpack(body)
    if attribute == CmAttribute.DREQ:
        local_id, remote_id, qpn = Dreq.layout.unpack(body)
        return Dreq(local_id=local_id, remote_id=remote_id, remote_qpn=qpn >> 8)
    if attribute == CmAttribute.SIDR_REQ:
        request_id, service = SidrReq.layout.unpack(body)
        return SidrReq(request_id=request_id, service_id=service)
    if attribute == CmAttribute.REJ:
        local_id, remote_id, rejected, _, reason = Rej.layout.unpack(body)
        return Rej(local_id=local_id, remote_id=remote_id, rejected=rejected >> 6, reason=reason)
    kind = _PAIRS.get(attribute)
    if kind is None:
        raise ProtocolError(f"a message of the communication manager with attribute {attribute:#x}")
    local_id, remote_id = kind.layout.unpack(body)
    return kind(local_id=local_id, remote_id=remote_id)


def service_id(port: int) -> int:
    """The service id of a port of the RDMA IP CM service (port space TCP)."""
    return _TCP_PORT_SPACE + port


def of_datagrams(service: int) -> int:
    """The service id of the same port for unreliable datagrams (port space UDP)."""
    return service - _TCP_PORT_SPACE + _UDP_PORT_SPACE


_IP_CM = struct.Struct(">BBH16s16s")


def pack_ip_cm(source: str, destination: str, source_port: int) -> bytes:
    """The header of the private data of a request: addresses and source port (annex A11)."""
    address = ipaddress.ip_address(source)
    return _IP_CM.pack(
        0, address.version << 4, source_port, address.packed.rjust(16, b"\0"),
        ipaddress.ip_address(destination).packed.rjust(16, b"\0"),
    )  # fmt: skip
