"""Links over a NIC in memory: what is posted is kept, what comes is given by the test."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import pytest

from agents.annexes.verbs.dialect import LOWEST_BITS, MessageKind
from agents.annexes.verbs.link import VerbsLink
from agents.annexes.verbs.nic import VerbsQpRecord
from agents.nic.channel import QueuePairOwner
from emulator.control.parameter import Parameter
from emulator.errors import RemoteProtocolError
from emulator.roce.connection.messages import Delivered, Message
from emulator.roce.wire.opcodes import PacketOperation

OWN = VerbsQpRecord(qpn=5, psn=1, rkey=7, address=4096, slots=4, slot_bytes=100, path_mtu=1024)
PEER = VerbsQpRecord(qpn=6, psn=2, rkey=8, address=8192, slots=2, slot_bytes=50, path_mtu=1024)


@dataclass
class QpInMemory:
    record: VerbsQpRecord = OWN
    connected: list[tuple[VerbsQpRecord, str]] = field(default_factory=list)
    posted: list[Message] = field(default_factory=list)
    is_closed: bool = False

    def connect(self, peer: VerbsQpRecord, host: str) -> None:
        self.connected.append((peer, host))

    def post(self, messages: Sequence[Message]) -> None:
        self.posted += messages

    def close(self) -> None:
        self.is_closed = True


class NicInMemory:
    def __init__(self) -> None:
        self.qp = QpInMemory()

    def create(self, owner: QueuePairOwner) -> QpInMemory:
        return self.qp

    def poll(self) -> None: ...

    def facts(self) -> Mapping[str, Parameter]:
        return {}

    def close(self) -> None: ...


@dataclass
class Heard:
    arrivals: list[tuple[int, int, int]] = field(default_factory=list)
    acknowledgements: list[int] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def arrived(self, peer: int, tag: int, size: int, now: int, count: int = 1) -> None:
        self.arrivals.append((peer, tag, size))

    def acknowledged(self, peer: int, tag: int, now: int) -> None:
        self.acknowledgements.append(tag)

    def failed(self, peer: int, reason: str) -> None:
        self.failures.append(reason)


class Bed:
    """A link to rank 1; what it calls soon is called by `later`."""

    def __init__(self, *, is_agreed: bool = True) -> None:
        self.nic, self.heard = NicInMemory(), Heard()
        self.soon: list[Callable[[], None]] = []
        self.link = VerbsLink(0, 1, "10.0.0.2", self.nic, events=self.heard, call_soon=self.soon.append)
        if is_agreed:
            self.link.connect(PEER)
            self.link.start()

    def later(self) -> None:
        soon, self.soon[:] = list(self.soon), []
        for call in soon:
            call()

    def deliver(self, kind: MessageKind, value: int = 0, size: int = 0) -> None:
        self.link.delivered(0, Delivered(PacketOperation.WRITE, 0, size, kind << LOWEST_BITS | value), 1)

    def complete(self) -> None:
        posted, self.nic.qp.posted = self.nic.qp.posted, []
        self.link.completed(0, posted, 2)


def test_nothing_leaves_before_both_ends_receive() -> None:
    bed = Bed(is_agreed=False)
    bed.link.post(3, 70)
    bed.link.send()
    assert bed.nic.qp.posted == []
    bed.link.connect(PEER)
    bed.link.send()
    assert bed.nic.qp.posted == []
    bed.link.start()
    assert [(one.size, one.address, one.rkey) for one in bed.nic.qp.posted] == [(50, 8192, 8), (20, 8242, 8)]


def test_both_ends_may_ask_but_for_one_queue_pair() -> None:
    bed = Bed()
    bed.link.connect(PEER)
    assert bed.nic.qp.connected == [(PEER, "10.0.0.2")]
    with pytest.raises(RemoteProtocolError, match="two different queue pairs"):
        bed.link.connect(VerbsQpRecord(**{name: getattr(PEER, name) for name in PEER.__struct_fields__} | {"qpn": 9}))


def test_ends_with_different_path_mtus_do_not_fit() -> None:
    record = VerbsQpRecord(**{name: getattr(PEER, name) for name in PEER.__struct_fields__} | {"path_mtu": 4096})
    with pytest.raises(RemoteProtocolError, match="its path MTU is 4096, that of this end 1024"):
        Bed(is_agreed=False).link.connect(record)


def test_returned_slots_let_the_rest_leave_and_read_slots_are_returned() -> None:
    bed = Bed()
    bed.link.post(3, 130)
    bed.link.send()
    bed.complete()
    assert bed.heard.acknowledgements == []
    bed.deliver(MessageKind.CREDIT, 1)
    bed.complete()
    assert bed.heard.acknowledgements == [3]
    for _ in range(2):
        bed.deliver(MessageKind.PART, size=100)
    (credit,) = bed.nic.qp.posted
    assert (credit.imm, credit.size) == (MessageKind.CREDIT << LOWEST_BITS | 2, 0)
    bed.deliver(MessageKind.END, 9, size=1)
    assert bed.heard.arrivals == [(1, 9, 201)]


def test_a_peer_that_closes_fails_what_is_under_way_at_once_and_else_the_next_post() -> None:
    busy, idle = Bed(), Bed()
    busy.link.post(3, 10)
    busy.link.send()
    for bed in (busy, idle):
        bed.link.peer_closed()
        assert bed.heard.failures == [], "never from inside a call"
        bed.later()
    assert (busy.heard.failures, idle.heard.failures) == (["it has closed its endpoint"], [])
    idle.link.post(4, 10)
    idle.later()
    assert idle.heard.failures == ["it has closed its endpoint"]


@pytest.mark.parametrize(
    ("kind", "value", "size", "reason"),
    [
        (MessageKind.CREDIT, 1, 0, "it returned more slots of its ring than were in use"),
        (MessageKind.END, 1, 0, "kind END with 0 bytes"),
        (MessageKind.CONTROL, 1, 4, "kind CONTROL with 4 bytes"),
    ],
)
def test_a_peer_that_breaks_the_rules_is_given_up_once(kind: MessageKind, value: int, size: int, reason: str) -> None:
    bed = Bed()
    for _ in range(2):
        bed.deliver(kind, value, size)
    bed.later()
    (failure,) = bed.heard.failures
    assert reason in failure
    assert bed.nic.qp.is_closed
    bed.link.post(1, 1)
    bed.link.send()
    assert bed.nic.qp.posted == []


def test_silence_lasts_from_the_last_acknowledgement_on() -> None:
    bed = Bed()
    assert bed.link.silent_since_ns is None
    bed.link.post(3, 130)
    bed.link.send()
    assert bed.link.silent_since_ns is not None
    bed.complete()
    assert bed.link.silent_since_ns is None
    counters = bed.link.counters()
    assert (counters.bytes, counters.messages, counters.qpn, counters.packets) == (100, 2, 6, None)
