"""Captures made by hand: packets of a connection as Ethernet frames, correct unless a test changes them."""

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from emulator.annexes.bench_kit.audit.audit import Audit
from emulator.annexes.bench_kit.audit.flow import FrameRule
from emulator.annexes.bench_kit.audit.pcap import CapturedFrame
from emulator.annexes.bench_kit.audit.report import AuditReport
from emulator.roce.wire.headers import Aeth, Bth, Extension, Reth
from emulator.roce.wire.icrc import UdpPath, icrc
from emulator.roce.wire.opcodes import Opcode
from emulator.roce.wire.packet import congestion_notification, pack_icrc, pack_packet, pad_bytes
from emulator.roce.wire.psn import wrap

MTU = 1024
ETHERNET = 1
CLIENT, SERVER = "10.0.0.1", "10.0.0.2"
CLIENT_V6, SERVER_V6 = "fd00::1", "fd00::2"
SERVER_QP, CLIENT_QP = 0x11, 0x22
STEP_NS = 1_000
ETHERNET_BYTES = 14
UDP_HEADERS = ETHERNET_BYTES + 28
WritePacket = tuple[Opcode, tuple[Extension, ...], bytes, int]
"""Opcode, extensions, payload and PSN of a packet of a WRITE."""


def ip_datagram(
    path: UdpPath, packet: bytes, *, ip_id: int = 0, traffic_class: int = 0, hop_limit: int = 64, crc: int | None = None
) -> bytes:
    """IP header, UDP header, packet and its ICRC (or another)."""
    crc = icrc(path, packet, ip_id=ip_id) if crc is None else crc
    payload = packet + pack_icrc(crc)
    udp = struct.pack(">HHHH", path.source_port, path.destination_port, 8 + len(payload), 0) + payload
    ends = path.source + path.destination
    if path.is_v4:
        return (
            struct.pack(">BBHHHBBH", 0x45, traffic_class, 20 + len(udp), ip_id, path.flags, hop_limit, 17, 0)
            + ends
            + udp
        )
    return struct.pack(">IHBB", 6 << 28 | traffic_class << 20, len(udp), 17, hop_limit) + ends + udp


def ethernet(datagram: bytes, *, vlan: bool = False) -> bytes:
    """An Ethernet frame around an IP datagram."""
    kind = b"\x08\x00" if datagram[0] >> 4 == 4 else b"\x86\xdd"
    return bytes(12) + (b"\x81\x00\x00\x05" if vlan else b"") + kind + datagram


class Conversation:
    """A client that writes to a server, captured in both directions; methods add a frame and return its number."""

    def __init__(self, *, is_v6: bool = False, first_psn: int = 100) -> None:
        client, server = (CLIENT_V6, SERVER_V6) if is_v6 else (CLIENT, SERVER)
        self.to_server = UdpPath.between(client, server, source_port=50001)
        self.to_client = UdpPath.between(server, client, source_port=50002)
        self.psn = first_psn
        self.msn = 0
        self.frames: list[bytes] = []

    def add(self, path: UdpPath, packet: bytes, *, crc: int | None = None, traffic_class: int = 0) -> int:
        """Any packet, without its ICRC."""
        ip_id = len(self.frames) & 0xFFFF
        self.frames.append(ethernet(ip_datagram(path, packet, ip_id=ip_id, crc=crc, traffic_class=traffic_class)))
        return len(self.frames)

    def request(
        self,
        opcode: Opcode,
        *extensions: Extension,
        payload: bytes = b"",
        psn: int | None = None,
        change: Callable[[Bth], None] = lambda bth: None,
        crc: int | None = None,
        traffic_class: int = 0,
    ) -> int:
        """A packet to the server, by default with the next PSN."""
        if psn is None:
            psn, self.psn = self.psn, self.psn + 1
        bth = Bth(opcode, wrap(psn), SERVER_QP, pad=pad_bytes(len(payload)))
        change(bth)
        packet = pack_packet(bth, *extensions, payload=payload)
        return self.add(self.to_server, packet, crc=crc, traffic_class=traffic_class)

    def write(self, size: int, *, announced: int | None = None, skip: Iterable[int] = ()) -> list[int]:
        """An RDMA WRITE without the packets at the indices in `skip`; returns the frame numbers."""
        packets = self.packets_of_write(size, announced=announced)
        return self.send(packets, *(index for index in range(len(packets)) if index not in skip))

    def send(self, packets: Sequence[WritePacket], *indices: int) -> list[int]:
        """Those packets of a WRITE, in this order; none: all. Returns the frame numbers."""
        chosen = [packets[index] for index in indices] if indices else packets
        return [
            self.request(opcode, *extensions, payload=payload, psn=psn) for opcode, extensions, payload, psn in chosen
        ]

    def packets_of_write(self, size: int, *, announced: int | None = None) -> list[WritePacket]:
        """The packets of a WRITE, with the next PSNs."""
        packets = -(-size // MTU) or 1
        first, self.psn = self.psn, self.psn + packets
        made: list[WritePacket] = []
        for index in range(packets):
            payload = bytes([index + 1 & 0xFF]) * min(MTU, size - index * MTU)
            opcode = _write_opcode(index, packets)
            reth = Reth(0x1000, 7, size if announced is None else announced)
            made.append((opcode, (reth,) if index == 0 else (), payload, first + index))
        return made

    def read(self, packets: int, *, psn: int | None = None, address: int = 0) -> int:
        """A READ of full packets, by default with the next PSNs."""
        psn = self.psn if psn is None else psn
        self.psn = max(self.psn, psn + packets)
        return self.request(Opcode.RC_READ_REQUEST, Reth(address, 1, packets * MTU), psn=psn)

    def respond(
        self, psn: int, packets: int, *, only: Iterable[int] | None = None, sizes: Sequence[int] = ()
    ) -> list[int]:
        """The responses to a READ of so many packets, or some of them, by default full; returns the frame numbers."""
        frames = []
        for index in range(packets) if only is None else only:
            opcode = _response_opcode(index, packets)
            aeth = () if opcode is Opcode.RC_READ_RESPONSE_MIDDLE else (Aeth(0x1F, 1),)
            packet = pack_packet(
                Bth(opcode, wrap(psn + index), CLIENT_QP), *aeth, payload=bytes(sizes[index] if sizes else MTU)
            )
            frames.append(self.add(self.to_client, packet))
        return frames

    def ack(self, psn: int | None = None, *, syndrome: int = 0x1F, msn: int | None = None, messages: int = 0) -> int:
        """An ACK of a PSN, by default the last; `messages`: how many more messages are complete."""
        self.msn += messages
        bth = Bth(Opcode.RC_ACK, wrap(self.psn - 1 if psn is None else psn), CLIENT_QP)
        return self.add(self.to_client, pack_packet(bth, Aeth(syndrome, self.msn if msn is None else msn)))

    def nak(self, psn: int) -> int:
        """A sequence-error NAK that names the expected PSN."""
        return self.ack(psn, syndrome=0x60)

    def cnp(self) -> int:
        """A congestion notification to the client."""
        return self.add(self.to_client, congestion_notification(CLIENT_QP))

    def captured(self) -> Iterator[CapturedFrame]:
        """The frames, one every microsecond."""
        for number, data in enumerate(self.frames, 1):
            yield CapturedFrame(number, number * STEP_NS, ETHERNET, data)

    def audit(self) -> AuditReport:
        """Their audit."""
        return audit_frames(self.captured())

    def save(self, path: Path) -> Path:
        """Write them as a pcap file."""
        path.write_bytes(pcap((frame.time_ns or 0, frame.data) for frame in self.captured()))
        return path


def _response_opcode(index: int, packets: int) -> Opcode:
    if packets == 1:
        return Opcode.RC_READ_RESPONSE_ONLY
    if index == 0:
        return Opcode.RC_READ_RESPONSE_FIRST
    return Opcode.RC_READ_RESPONSE_LAST if index == packets - 1 else Opcode.RC_READ_RESPONSE_MIDDLE


def _write_opcode(index: int, packets: int) -> Opcode:
    if packets == 1:
        return Opcode.RC_WRITE_ONLY
    if index == 0:
        return Opcode.RC_WRITE_FIRST
    return Opcode.RC_WRITE_LAST if index == packets - 1 else Opcode.RC_WRITE_MIDDLE


def audit_frames(frames: Iterable[CapturedFrame], *, port: int = 4791) -> AuditReport:
    """The audit of frames."""
    audit = Audit(port=port)
    for frame in frames:
        audit.add(frame)
    return audit.finish("capture")


def conversation() -> Conversation:
    """Three WRITEs of three packets each, and their ACKs."""
    talk = Conversation()
    for _ in range(3):
        talk.write(2 * MTU + 1)
        talk.ack(messages=1)
    return talk


def broken(report: AuditReport) -> list[tuple[int, FrameRule]]:
    """Frame and rule of every violation."""
    return [(one.frame, one.rule) for one in report.violations]


def pcap(records: Iterable[tuple[int, bytes]], *, link_type: int = ETHERNET, nano: bool = True) -> bytes:
    """A pcap file of (time in nanoseconds, frame)."""
    parts = [struct.pack("<IHHIIII", 0xA1B23C4D if nano else 0xA1B2C3D4, 2, 4, 0, 0, 1 << 18, link_type)]
    for time_ns, data in records:
        sub = time_ns % 10**9
        head = struct.pack("<IIII", time_ns // 10**9, sub if nano else sub // 1000, len(data), len(data))
        parts += [head, data]
    return b"".join(parts)


def pcapng(records: Iterable[tuple[int, bytes]], *, link_type: int = ETHERNET) -> bytes:
    """A pcapng file with nanosecond timestamps."""
    options = struct.pack("<HHB3xHH", 9, 1, 9, 0, 0)
    parts = [
        _block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1)),
        _block(1, struct.pack("<HHI", link_type, 0, 0) + options),
    ]
    for time_ns, data in records:
        head = struct.pack("<5I", 0, time_ns >> 32, time_ns & 0xFFFFFFFF, len(data), len(data))
        parts.append(_block(6, head + data + bytes(-len(data) % 4)))
    return b"".join(parts)


def _block(kind: int, body: bytes) -> bytes:
    size = struct.pack("<I", 12 + len(body))
    return struct.pack("<I", kind) + size + body + size
