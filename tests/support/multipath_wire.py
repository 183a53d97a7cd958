"""Two queue pairs of the multipath profile and a network of paths between them, on a clock of its own."""

import heapq
from random import Random

from emulator.roce.connection.messages import ConnectionSettings, Delivered, Message, PacketRun
from emulator.roce.connection.send_queue import NEVER
from emulator.roce.multipath.paths import Health
from emulator.roce.multipath.receiver import MultipathPair
from emulator.roce.multipath.requester import Spray
from emulator.roce.multipath.wire import Placed, SelectiveAck, parse_write, probe_header, write_header
from emulator.roce.wire.psn import Psn, add

LATENCY_NS = 50_000
ICRC = bytes(4)


class MultipathEnd:
    """A queue pair and what its owner has heard."""

    def __init__(self, pair: MultipathPair, health: Health) -> None:
        self.pair, self.health = pair, health
        self.delivered: list[Delivered] = []
        self.completed: list[Message] = []


class MultipathWire:
    """Runs two ends until nothing is left to do.

    `loss`, `duplication`, `reordering`, `trimming`: probabilities of each packet; acknowledgements are not trimmed.
    `black`: paths that lose everything, in both directions, from `black_from_ns` to `black_until_ns`.
    `packet_ns`: how long a packet occupies its path; a path queues `queue_packets` and loses the rest.
    """

    def __init__(
        self,
        settings: ConnectionSettings,
        *,
        paths: int,
        seed: int,
        loss: float = 0.0,
        duplication: float = 0.0,
        reordering: float = 0.0,
        trimming: float = 0.0,
        black: frozenset[int] = frozenset(),
        black_from_ns: int = 0,
        black_until_ns: int = 1 << 60,
        packet_ns: int = 0,
        queue_packets: int = 1 << 30,
        first_psns: tuple[int, int] = (0, 0),
        batch_packets: int = 1,
    ) -> None:
        self.settings, self.now, self.paths = settings, 0, paths
        self.ends = tuple(
            MultipathEnd(
                MultipathPair(settings, send_psn=Psn(mine), expect_psn=Psn(theirs), health=health,
                              batch_packets=batch_packets), health,
            )
            for mine, theirs, health in zip(first_psns, first_psns[::-1], (Health(paths), Health(paths)), strict=True)
        )  # fmt: skip
        self.trimmed = self.lost = 0
        self.is_cut = False
        self.black, self._black_ns = black, (black_from_ns, black_until_ns)
        self.arrived_bytes: list[tuple[int, int, int]] = []  # time, path, bytes
        self._random, self._loss, self._duplication = Random(seed), loss, duplication
        self._reordering, self._trimming = reordering, trimming
        self._packet_ns, self._queue_packets = packet_ns, queue_packets
        self._free_ns: dict[tuple[int, int], int] = {}
        self._heap: list[tuple[int, int, int, Placed | SelectiveAck, bool, int]] = []
        self._order = self._answers = 0

    def run(self, *, limit_ns: int = 10**12) -> None:
        self._send()
        while not all(end.pair.requester.is_idle or end.pair.requester.failure for end in self.ends):
            due = min(end.pair.deadline_ns for end in self.ends)
            if self._heap and self._heap[0][0] <= due:
                self.now, _, side, packet, is_trimmed, path = heapq.heappop(self._heap)
                self._take(side, packet, path, is_trimmed=is_trimmed)
            else:
                assert due < NEVER, "a hang: packets are outstanding and nothing will happen"
                self.now = max(self.now, due)
                for end in self.ends:
                    end.pair.requester.handle_timer(self.now)
            assert self.now < limit_ns
            self._send()

    def _take(self, side: int, packet: Placed | SelectiveAck, path: int, *, is_trimmed: bool) -> None:
        end = self.ends[side]
        if isinstance(packet, SelectiveAck):
            end.pair.acknowledge_selectively(packet, self.now)
            end.completed += end.pair.completed or ()
            end.pair.completed = None
        elif is_trimmed:
            end.pair.placer.cut_short(packet.psn)
        else:
            self.arrived_bytes.append((self.now, path, packet.size))
            end.pair.placer.begin()
            end.pair.placer.place(packet)
            end.delivered += end.pair.responder.delivered
            end.pair.responder.delivered.clear()

    def _send(self) -> None:
        for side, end in enumerate(self.ends):
            reply = end.pair.responder.take_reply() if end.pair.responder.is_urgent else None
            if reply is not None:
                assert isinstance(reply, SelectiveAck)
                ack = SelectiveAck.parse(reply.pack(7) + ICRC)
                assert ack is not None
                self._answers += 1
                in_use = end.health.in_use
                self._put(1 - side, ack, in_use[self._answers % len(in_use)])
            while (run := end.pair.next_run(self.now, 64)) is not None:
                self._spray(1 - side, run)

    def _spray(self, side: int, run: PacketRun) -> None:
        assert isinstance(run, Spray)
        message, mtu = run.message, self.settings.path_mtu
        for burst in run.bursts:
            headers = [
                write_header(
                    message, add(run.psn, place), place, min(mtu, message.size - place * mtu), dest_qp=7, path_mtu=mtu
                )
                for place in burst.packets
            ]
            for header in headers or [probe_header(burst.psn, dest_qp=7, rkey=0)]:
                packet = parse_write(header)
                assert packet is not None
                self._put(side, packet, burst.path)

    def _put(self, side: int, packet: Placed | SelectiveAck, path: int) -> None:
        since, until = self._black_ns
        leaves = max(self.now, self._free_ns.get((side, path), 0)) + self._packet_ns
        is_full = self._packet_ns and leaves - self.now > self._queue_packets * self._packet_ns
        is_dark = path in self.black and since <= self.now < until
        if self.is_cut or is_dark or is_full or self._random.random() < self._loss:
            self.lost += 1
            return
        self._free_ns[side, path] = leaves
        is_trimmed = isinstance(packet, Placed) and packet.size > 0 and self._random.random() < self._trimming
        self.trimmed += is_trimmed
        for _ in range(1 if is_trimmed or self._random.random() >= self._duplication else 2):
            late = self._random.randrange(4 * LATENCY_NS) if self._random.random() < self._reordering else 0
            self._order += 1
            arrival = leaves + LATENCY_NS * (1 + path % 3) + late
            heapq.heappush(self._heap, (arrival, self._order, side, packet, is_trimmed, path))
