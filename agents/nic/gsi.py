"""Queue pair 1 of a NIC, the general services interface: management datagrams in and out."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from agents.nic.nic import SoftwareNic
from agents.nic.system_calls import SocketAddress
from emulator.roce.connection.qp_facts import packed
from emulator.roce.constants import FIRST_SOURCE_PORT, ICRC_BYTES, UDP_PORT
from emulator.roce.wire.cm import GSI_Q_KEY, GSI_QPN
from emulator.roce.wire.headers import Bth, Deth
from emulator.roce.wire.icrc import UdpPath, icrc, recover_ip_id
from emulator.roce.wire.opcodes import Opcode
from emulator.roce.wire.packet import Problem, pack_icrc, pack_packet, parse_packet
from emulator.roce.wire.psn import Psn, add

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
