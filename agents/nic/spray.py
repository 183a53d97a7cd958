"""Sends what a queue pair of the multipath profile deals to its paths: one socket or flow label per entropy value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from agents.nic.context import Context
from agents.nic.sockets import Sender, traffic_class_message
from agents.nic.system_calls import SocketAddress, cut_message
from agents.nic.transmitter import Transmitter
from emulator.roce.connection.messages import PacketRun, Reply
from emulator.roce.connection.qp_facts import QpFacts
from emulator.roce.constants import UDP_PORT
from emulator.roce.multipath.paths import Health
from emulator.roce.multipath.requester import Burst, Spray
from emulator.roce.multipath.wire import WRITE_BYTES, SelectiveAck, icrc_changes, probe_header, words_of, write_header
from emulator.roce.wire.framing import ICRC, Framing
from emulator.roce.wire.icrc import icrc, ip_id_changes
from emulator.roce.wire.psn import PSN_MASK, add


class SprayTransmitter(Transmitter):
    """Sends the packets of one queue pair of the multipath profile.

    Args:
        context, facts: see Transmitter.
        health: which paths are in use: answers take them in turn, because none knows which of them arrive.
        has_labels: the flow label is the entropy value, not the source port.
    """

    __slots__ = ("_answers", "_health", "_targets")

    def __init__(self, context: Context, facts: QpFacts, health: Health, *, has_labels: bool) -> None:
        super().__init__(context, facts)
        self._health, self._answers = health, 0
        labels = range(1, health.values + 1) if has_labels else (0,) * health.values
        self._targets: Sequence[SocketAddress] = [
            (facts.peer_host, UDP_PORT, label, 0) if label else (facts.peer_host, UDP_PORT) for label in labels
        ]

    def turns(self, run: PacketRun, turn: int) -> Iterator[None]:
        """Send the packets of a run; they are few, so it yields nothing."""
        assert isinstance(run, Spray)
        for burst in run.bursts:
            self._send_burst(run, burst)
        yield from ()

    def reply(self, reply: Reply) -> None:
        """Send a selective acknowledgement."""
        assert isinstance(reply, SelectiveAck)
        framing, sender, to = self._answer_path()
        packet = reply.pack(framing.dest_qp)
        packet += ICRC.pack(icrc(framing.path, packet))
        dscp = self._context.options.ack_dscp
        if dscp < 0:
            sender.send_whole(packet, to)
        else:
            sender.send((packet,), to, traffic_class_message(dscp << 2, is_v6=sender.is_v6))

    def notify(self) -> None:
        """Send a congestion notification."""
        framing, sender, to = self._answer_path()
        control = traffic_class_message(self._context.options.cnp_dscp << 2, is_v6=sender.is_v6)
        sender.send((framing.notification(),), to, control)

    def _answer_path(self) -> tuple[Framing, Sender, SocketAddress]:
        usable = self._health.in_use
        self._answers += 1
        return self._path_to(usable[self._answers % len(usable)])

    def _path_to(self, path: int) -> tuple[Framing, Sender, SocketAddress]:
        framing, sender = self._path(path)
        if self._targets[path] != self._to:
            sender.use_flow_labels()
        return framing, sender, self._targets[path]

    def _send_burst(self, run: Spray, burst: Burst) -> None:
        message, (framing, sender, to) = run.message, self._path_to(burst.path)
        if not burst.packets:
            header = probe_header(burst.psn, dest_qp=framing.dest_qp, rkey=message.rkey)
            sender.send_whole(framing.packet(header), to)
            return
        packets, last = list(burst.packets), message.packets - 1
        alone = []
        if packets[-1] == last and (message.verb.value[1] or message.size % self._context.payload.path_mtu):
            alone = [packets.pop()]
        while packets:
            taken = self._send_together(run, packets, framing, sender, to) if len(packets) > 1 else 0
            if not taken:
                self._send_alone(run, packets[0], framing, sender, to)
            packets = packets[taken or 1 :]
        for packet in alone:
            self._send_alone(run, packet, framing, sender, to)

    def _header(self, run: Spray, packet: int, size: int, framing: Framing) -> bytes:
        return write_header(
            run.message,
            add(run.psn, packet),
            packet,
            size,
            dest_qp=framing.dest_qp,
            path_mtu=self._context.payload.path_mtu,
        )

    def _send_alone(self, run: Spray, packet: int, framing: Framing, sender: Sender, to: SocketAddress) -> None:
        payload, message = self._context.payload, run.message
        size = min(payload.path_mtu, message.size - packet * payload.path_mtu)
        header = self._header(run, packet, size, framing)
        sender.send_whole(framing.packet(header, size, payload.slot(packet)), to)

    def _send_together(
        self, run: Spray, packets: Sequence[int], framing: Framing, sender: Sender, to: SocketAddress
    ) -> int:
        """Send full packets in one call that the kernel cuts; returns how many, 0 if it does not cut."""
        if not self._context.is_cutting:
            return 0
        payload = self._context.payload
        batch = payload.batch(WRITE_BYTES, payload.path_mtu)
        count = min(len(packets), batch.packets)
        self._fill(run, packets[:count], framing)
        try:
            sender.send((batch.calls[count],), to, cut_message(batch.packet_bytes), packets=count)
        except OSError as error:
            self._stop_cutting(error)
            return 0
        return count

    def _fill(self, run: Spray, packets: Sequence[int], framing: Framing) -> None:
        """Write full packets into the batch: the first one's headers, and what is different in the others."""
        payload, message = self._context.payload, run.message
        mtu, count = payload.path_mtu, len(packets)
        batch = payload.batch(WRITE_BYTES, mtu)
        columns, places = batch.columns, np.array(packets)
        slots = np.zeros_like(places) if payload.is_constant else places % payload.slots
        header = self._header(run, packets[0], mtu, framing)
        columns.starts[:count] = int.from_bytes(header[:8], "little")
        columns.extensions[:count] = np.frombuffer(header, "<u4", offset=12)
        psns = run.psn + places & PSN_MASK | (places == message.packets - 1).astype(np.int64) << 31
        addresses = np.uint64(message.address) + places.astype(np.uint64) * np.uint64(mtu)
        columns.psns[:count] = psns.astype(">u4").view("<u4")
        columns.extensions[:count, :2] = addresses.astype(">u8").view("<u4").reshape(count, 2)
        whole = batch.calls[count]
        changes = icrc_changes(words_of(whole, count, batch.packet_bytes), batch.packet_bytes)
        assert changes is not None
        changes ^= np.uint32(framing.icrc(header, mtu, int(slots[0])))
        if framing.path.is_v4:
            changes ^= ip_id_changes(batch.packet_bytes)[:count]
        if not payload.is_constant:
            rows = np.frombuffer(whole, np.uint8).reshape(count, batch.packet_bytes)
            rows[:, WRITE_BYTES : WRITE_BYTES + mtu] = payload.rows[slots]
            changes ^= payload.slot_crcs[slots] ^ payload.slot_crcs[slots[0]]
        columns.icrcs[:count] = changes
