"""Two software NICs on loopback, as a foreign peer uses them: every verb, both directions, loss."""

import asyncio
import contextlib
import random
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import pytest

from agents.nic.channel import Channel
from agents.nic.nic import StandaloneNic
from agents.nic.sockets import Listener, Sender
from emulator.roce.connection.memory import Memory, MemoryRegion
from emulator.roce.connection.messages import ConnectionSettings, Delivered, Message, Verb
from emulator.roce.connection.qp_facts import QpFacts
from emulator.roce.connection.queue_pair import QueuePair
from emulator.roce.options import RoceOptions
from emulator.roce.wire.opcodes import PacketOperation
from emulator.roce.wire.packet import Packet
from emulator.roce.wire.payload import CONSTANT_BYTE
from emulator.roce.wire.psn import Psn
from tests.support.loopback import NET

HOSTS = (f"{NET}.0.201", f"{NET}.0.202")
RKEY = 77
SENT = (Verb.SEND, Verb.SEND_IMM, Verb.WRITE, Verb.WRITE_IMM)


class End:
    """One end of a queue pair."""

    def __init__(self, nic: StandaloneNic, number: int, path_mtu: int, timeout_exponent: int) -> None:
        host, peer_host = HOSTS[number], HOSTS[1 - number]
        self.nic, self.delivered_, self.completed_ = nic, list[Delivered](), list[Message]()
        self.content: list[bytes] = []
        self.reasons: list[str] = []
        self._happened = asyncio.Event()
        facts = QpFacts(
            host=host,
            peer_host=peer_host,
            qpn=100 + number,
            peer_qpn=101 - number,
            psn=Psn(0xFFFFF0 + number),
            peer_psn=Psn(0xFFFFF1 - number),
            rkey=RKEY,
            source_ports=(50_000 + number,),
        )
        settings = ConnectionSettings(
            path_mtu=path_mtu, window_packets=64, ack_interval=32, timeout_exponent=timeout_exponent
        )
        memory = Memory([MemoryRegion(rkey=RKEY, address=0, length=1 << 64)])
        self.pair = QueuePair(settings, send_psn=facts.psn, expect_psn=facts.peer_psn, memory=memory)
        self.channel: Channel = nic.nic.create_foreign(facts, self.pair, self, sink=self._take)

    def _take(self, packet: Packet) -> None:
        self.content.append(packet.payload)

    def delivered(self, index: int, delivered: Delivered, now: int) -> None:
        self.delivered_.append(delivered)
        self._happened.set()

    def completed(self, index: int, messages: Sequence[Message], now: int) -> None:
        self.completed_ += messages
        self._happened.set()

    def broke(self, reason: str) -> None:
        self.reasons.append(reason)
        self._happened.set()

    def post(self, *messages: Message) -> None:
        for message in messages:
            self.channel.post(message)
        self.channel.send(time.monotonic_ns())
        self.nic.passes.watch()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while not condition():
                self._happened.clear()
                await self._happened.wait()


@contextlib.contextmanager
def two_ends(path_mtu: int = 1024, timeout_exponent: int = 22) -> Iterator[tuple[End, End]]:
    """Without loss no timeout ends, however busy the machine is."""
    options = RoceOptions.parse({"path_mtu": str(path_mtu), "qp_timeout": str(timeout_exponent)})
    with StandaloneNic(HOSTS[0], options) as a, StandaloneNic(HOSTS[1], options) as b:
        yield End(a, 0, path_mtu, timeout_exponent), End(b, 1, path_mtu, timeout_exponent)


def sizes(path_mtu: int) -> Sequence[int]:
    return (0, 1, path_mtu - 1, path_mtu, path_mtu + 1, 5 * path_mtu, 300_001)


@pytest.mark.parametrize("path_mtu", [256, 1024, 4096])
@pytest.mark.parametrize("verb", SENT)
async def test_messages_of_any_size_are_delivered_and_completed(verb: Verb, path_mtu: int) -> None:
    with two_ends(path_mtu) as (a, b):
        operation, has_imm = verb.value
        a.post(*(Message(verb, size, 1 << 40, 9, RKEY) for size in sizes(path_mtu)))
        await a.until(lambda: len(a.completed_) == len(sizes(path_mtu)))
        assert [one.size for one in b.delivered_] == list(sizes(path_mtu))
        assert {(one.operation, one.imm) for one in b.delivered_} == {(operation, 9 if has_imm else None)}
        assert b"".join(b.content) == bytes([CONSTANT_BYTE]) * sum(sizes(path_mtu))


@pytest.mark.parametrize("path_mtu", [256, 4096])
async def test_reads_are_answered(path_mtu: int) -> None:
    with two_ends(path_mtu) as (a, b):
        a.post(*(Message(Verb.READ, size, 1 << 40, rkey=RKEY) for size in sizes(path_mtu)))
        b.post(Message(Verb.READ, 100_000, rkey=RKEY), Message(Verb.SEND, 10))
        await a.until(lambda: len(a.completed_) == len(sizes(path_mtu)))
        await b.until(lambda: len(b.completed_) == 2)
        assert [one.operation for one in a.delivered_] == [PacketOperation.SEND]
        assert a.pair.drops == b.pair.drops == {}


async def test_a_message_of_one_packet_can_have_its_own_content() -> None:
    with two_ends() as (a, b):
        contents = [bytes([number]) * number for number in range(1, 30)]
        a.post(*(Message(Verb.WRITE, len(one), 4096, rkey=RKEY, content=one) for one in contents))
        await a.until(lambda: len(a.completed_) == len(contents))
        assert b.content == contents


async def test_every_verb_survives_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = random.Random(1)  # every fifth one could be the same acknowledgement again and again
    send_whole = Sender.send_whole

    def lossy(sender: Sender, datagram: bytes, to: tuple[str, int]) -> None:
        if drawn.random() > 0.2:
            send_whole(sender, datagram, to)

    monkeypatch.setattr(Sender, "send_whole", lossy)
    with two_ends(timeout_exponent=11) as (a, b):
        verbs = [*SENT, Verb.READ] * 6
        a.post(*(Message(verb, 700 * place, 1 << 40, 9, RKEY) for place, verb in enumerate(verbs)))
        await a.until(lambda: len(a.completed_) == len(verbs))
        assert [one.verb for one in a.completed_] == verbs
        assert len(b.delivered_) == 4 * 6
        assert a.pair.requester.retransmits


async def test_a_wrong_key_breaks_the_connection_and_names_it() -> None:
    with two_ends() as (a, b):
        a.post(Message(Verb.WRITE, 10, 0, rkey=RKEY + 1))
        await a.until(lambda: bool(a.reasons))
        assert a.reasons == ["the peer refused with a key or range it does not allow"]
        assert b.delivered_ == []


@pytest.mark.parametrize(("hold_ns", "is_held"), [(50_000, True), (0, False)])
async def test_what_an_interface_held_is_taken_off_the_stamp(
    hold_ns: int, *, is_held: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if the loopback interface held frames: it cannot be made to."""
    monkeypatch.setattr("agents.nic.sockets.hold_ns", lambda device: hold_ns)
    monkeypatch.setattr("agents.nic.nic.Listener", partial(Listener, has_stamps=True))
    with two_ends() as (a, b):
        received: list[tuple[int, int]] = []
        b.delivered = lambda *_: received.append((b.nic.nic.stamp_ns, b.nic.nic.received_ns))  # type: ignore[method-assign]
        a.post(Message(Verb.WRITE_IMM, 1, 1 << 40, 9, RKEY))
        await a.until(lambda: bool(a.completed_))
        ((stamp, came),) = received
        assert stamp - came >= hold_ns if is_held else came == stamp > 0
