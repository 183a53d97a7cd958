"""Windows, the budget, acknowledgements and order of a flow, over a socket in memory."""

import errno
from collections import deque
from typing import Any, cast

import pytest
import zmq
from hypothesis import given
from hypothesis import strategies as st

from agents.annexes.zmq.flows import (
    ACKNOWLEDGEMENT,
    CONTROL,
    END,
    HEADER,
    KEPT_FRAMES,
    PART,
    WINDOW_MESSAGES,
    InFlow,
    OutFlow,
    ZmqExchange,
    incoming_name,
    outgoing_name,
    parse_incoming_name,
)

RUN = b"12345678"
MESSAGE_BYTES = 1000
SCRATCH = HEADER.size


class MemorySocket:
    """What an exchange uses of a ROUTER socket: frames sent, and frames to receive."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.waiting: deque[bytes] = deque()
        self.error: zmq.ZMQError | None = None

    def send(self, frame: Any, flags: int = 0, copy: bool = True) -> None:
        if self.error is not None:
            raise self.error
        self.sent.append(frame.bytes if isinstance(frame, zmq.Frame) else bytes(frame))

    def recv(self, flags: int = 0) -> bytes:
        return self.waiting.popleft()

    def recv_into(self, buffer: bytearray, *, flags: int = 0) -> int:
        frame = self.waiting.popleft()
        kept = min(len(frame), len(buffer))
        buffer[:kept] = frame[:kept]
        return len(frame)


class Owner:
    """The endpoint of rank 0, which records what its flows report."""

    rank = 0

    def __init__(self) -> None:
        self.is_live = True
        self.acknowledged_: list[int] = []
        self.arrivals: list[tuple[int, int, int]] = []
        self.failures: list[tuple[int, str]] = []

    @property
    def events(self) -> Any:
        return self

    def acknowledged(self, peer: int, tag: int, now: int) -> None:
        self.acknowledged_.append(tag)

    def arrived(self, peer: int, tag: int, size: int, now: int) -> None:
        self.arrivals.append((peer, tag, size))

    def fail(self, peer: int, reason: str) -> None:
        self.failures.append((peer, reason))


class Sending:
    """A flow from rank 0 to rank 1."""

    def __init__(self, *, window_bytes: int = 4000, budget_bytes: int = 1 << 20) -> None:
        self.socket, self.owner = MemorySocket(), Owner()
        self.exchange = ZmqExchange(
            cast(Any, self.socket), message_bytes=MESSAGE_BYTES, window_bytes=window_bytes, budget_bytes=budget_bytes
        )
        self.flow = self.to(1)

    def to(self, peer: int) -> OutFlow:
        return OutFlow(self.exchange, cast(Any, self.owner), peer=peer, name=outgoing_name(RUN, 0, peer))

    def post(self, *transfers: tuple[int, int]) -> None:
        """Post (tag, size) of transfers and end the batch."""
        for tag, size in transfers:
            self.flow.post(tag, size)
        self.exchange.settle()

    def messages(self) -> list[tuple[int, int, int, int, int]]:
        """Messages sent since the last call: tag, size of the transfer, sequence, kind, payload."""
        frames, self.socket.sent = self.socket.sent, []
        found = []
        while frames:
            assert frames.pop(0) == outgoing_name(RUN, 0, 1)
            header = HEADER.unpack(frames.pop(0))
            payload = 0 if header[3] == CONTROL else len(frames.pop(0))
            found.append((*header, payload))
        return found

    def acknowledge(self, payload: int, control: int = 0) -> None:
        self.socket.waiting.append(ACKNOWLEDGEMENT.pack(payload, control))
        self.flow.receive(bytearray(SCRATCH))


class Receiving:
    """A flow from rank 1 to rank 0."""

    def __init__(self) -> None:
        self.socket, self.owner = MemorySocket(), Owner()
        self.exchange = ZmqExchange(cast(Any, self.socket), message_bytes=MESSAGE_BYTES, window_bytes=1, budget_bytes=1)
        self.flow = InFlow(self.exchange, cast(Any, self.owner), peer=1, name=incoming_name(RUN, 1, 0))

    def message(self, *, sequence: int, kind: int, tag: int = 7, size: int = 10, header: bytes | None = None) -> None:
        self.socket.waiting.append(HEADER.pack(tag, size, sequence, kind) if header is None else header)
        if kind != CONTROL:
            self.socket.waiting.append(bytes(size))
        self.flow.receive(bytearray(SCRATCH))

    def acknowledgements(self) -> list[tuple[int, ...]]:
        self.exchange.settle()
        frames, self.socket.sent = self.socket.sent, []
        return [ACKNOWLEDGEMENT.unpack(frame) for frame in frames[1::2]]


def test_a_connection_is_named_by_run_and_ranks() -> None:
    assert parse_incoming_name(incoming_name(RUN, 3, 4), RUN) == (3, 4)
    assert parse_incoming_name(incoming_name(RUN, 3, 4), b"another.") is None
    assert parse_incoming_name(outgoing_name(RUN, 3, 4), RUN) is None
    assert parse_incoming_name(b"", RUN) is None


def test_a_transfer_is_cut_into_messages() -> None:
    sending = Sending()
    sending.post((7, 2500))
    assert sending.messages() == [(7, 2500, 0, PART, 1000), (7, 2500, 1, PART, 1000), (7, 2500, 2, END, 500)]
    assert (sending.flow.counters.bytes, sending.flow.counters.messages) == (2500, 3)


def test_nothing_is_sent_before_the_end_of_a_batch() -> None:
    sending = Sending()
    sending.flow.post(7, 1)
    assert sending.socket.sent == []
    sending.exchange.settle()
    assert len(sending.messages()) == 1


def test_control_overtakes_payload_but_not_control() -> None:
    sending = Sending()
    sending.post((1, 10), (2, 0), (3, 0))
    assert [(tag, sequence, kind) for tag, _, sequence, kind, _ in sending.messages()] == [
        (2, 0, CONTROL),
        (3, 1, CONTROL),
        (1, 0, END),
    ]


def test_the_window_limits_unacknowledged_payload() -> None:
    sending = Sending(window_bytes=2000)
    sending.post((7, 5000))
    assert len(sending.messages()) == 2
    sending.acknowledge(1)
    sending.post()
    assert [sequence for _, _, sequence, _, _ in sending.messages()] == [2]
    assert sending.flow.acknowledged_bytes == 1000


def test_the_window_limits_unacknowledged_messages_too() -> None:
    sending = Sending(window_bytes=1 << 20)
    sending.post(*((tag, 1) for tag in range(WINDOW_MESSAGES + 5)))
    assert len(sending.messages()) == WINDOW_MESSAGES


def test_control_is_sent_while_the_window_is_full() -> None:
    sending = Sending(window_bytes=1000)
    sending.post((7, 5000))
    sending.messages()
    sending.post((8, 0))
    assert [kind for _, _, _, kind, _ in sending.messages()] == [CONTROL]


def test_flows_share_the_budget_of_their_agent() -> None:
    sending = Sending(budget_bytes=2000)
    other = sending.to(2)
    sending.flow.post(1, 5000)
    other.post(2, 1000)
    sending.exchange.settle()
    assert sending.exchange.unacknowledged == 2000
    assert (sending.flow.counters.bytes, other.counters.bytes) == (2000, 0)
    sending.acknowledge(2)
    sending.post()
    assert other.counters.bytes + sending.flow.counters.bytes == 4000
    sending.acknowledge(4)
    sending.post()
    assert other.counters.bytes == 1000, "who waits for the budget gets it"


def test_a_transfer_is_acknowledged_with_its_last_message() -> None:
    sending = Sending()
    sending.post((1, 1500), (2, 10), (3, 0))
    sending.acknowledge(1)
    assert sending.owner.acknowledged_ == []
    sending.acknowledge(2, 1)
    assert sorted(sending.owner.acknowledged_) == [1, 3]
    sending.acknowledge(3, 1)
    assert sending.owner.acknowledged_[-1] == 2
    assert sending.flow.is_idle
    assert sending.exchange.unacknowledged == 0


@pytest.mark.parametrize(("counts", "is_failure"), [((1, 0), False), ((2, 0), True), ((1, 1), True)])
def test_an_acknowledgement_again_changes_nothing_and_one_of_what_was_never_sent_is_a_failure(
    counts: tuple[int, int], is_failure: bool
) -> None:
    sending = Sending()
    sending.post((1, 10))
    sending.acknowledge(1)
    sending.acknowledge(*counts)
    assert sending.owner.acknowledged_ == [1]
    problem = (1, "it acknowledged messages that were never sent")
    assert sending.owner.failures == [problem] * is_failure


def test_silence_lasts_from_the_first_message_until_everything_is_acknowledged() -> None:
    sending = Sending()
    assert sending.flow.silent_since_ns is None
    sending.post((1, 10))
    assert sending.flow.silent_since_ns is not None
    sending.acknowledge(1)
    assert sending.flow.silent_since_ns is None


def test_a_connection_that_is_lost_with_something_outstanding_is_a_failure() -> None:
    sending = Sending()
    sending.post((1, 10))
    sending.flow.lose("the connection was lost")
    assert sending.owner.failures == [(1, "the connection was lost")]


def test_a_connection_that_is_lost_while_idle_fails_at_the_next_post() -> None:
    sending = Sending()
    sending.flow.lose("the connection was lost")
    assert (sending.owner.failures, sending.flow.broken) == ([], "the connection was lost")


def test_a_flow_that_is_dropped_returns_its_budget_and_ignores_late_acknowledgements() -> None:
    sending = Sending()
    sending.post((1, 3000))
    sending.flow.drop("closed")
    assert (sending.exchange.unacknowledged, sending.flow.is_idle) == (0, True)
    sending.acknowledge(3)
    assert (sending.owner.acknowledged_, sending.owner.failures) == ([], [])


def test_a_socket_that_refuses_a_message_is_a_failure_of_the_peer() -> None:
    sending = Sending()
    sending.socket.error = zmq.ZMQError(errno.EHOSTUNREACH)
    sending.post((1, 10))
    ((peer, reason),) = sending.owner.failures
    assert (peer, reason.startswith("cannot send: ")) == (1, True)


def test_a_snapshot_does_not_change_any_more() -> None:
    sending = Sending()
    before = sending.flow.snapshot()
    sending.post((1, 10))
    assert (before.bytes, sending.flow.snapshot().bytes) == (0, 10)


def test_frames_of_a_size_are_made_once_and_a_few_are_kept() -> None:
    exchange = Sending().exchange
    assert exchange.frame(10) is exchange.frame(10)
    for size in range(1, 2 * KEPT_FRAMES):
        exchange.frame(size)
    assert exchange.frame.cache_info().currsize == KEPT_FRAMES


@given(st.lists(st.integers(0, 3500), max_size=12))
def test_every_byte_is_sent_once_and_in_order_whatever_is_posted(sizes: list[int]) -> None:
    sending = Sending(window_bytes=2000, budget_bytes=3000)
    for tag, size in enumerate(sizes):
        sending.flow.post(tag, size)
    payload = control = 0
    got: dict[int, int] = {}
    while True:
        sending.exchange.settle()
        messages = sending.messages()
        if not messages:
            break
        for tag, _, sequence, kind, count in messages:
            assert sequence == (control if kind == CONTROL else payload)
            control, payload = control + (kind == CONTROL), payload + (kind != CONTROL)
            got[tag] = got.get(tag, 0) + count
        assert sending.exchange.unacknowledged <= 3000
        sending.acknowledge(payload, control)
    assert got == dict(enumerate(sizes))
    assert sorted(sending.owner.acknowledged_) == list(range(len(sizes)))


def test_a_transfer_arrives_with_its_last_message() -> None:
    receiving = Receiving()
    receiving.message(sequence=0, kind=PART, size=1500)
    assert receiving.owner.arrivals == []
    receiving.message(sequence=1, kind=END, size=1500)
    assert receiving.owner.arrivals == [(1, 7, 1500)]


def test_a_pass_acknowledges_once_what_came_in_it() -> None:
    receiving = Receiving()
    receiving.message(sequence=0, kind=PART)
    receiving.message(sequence=0, kind=CONTROL)
    receiving.message(sequence=1, kind=END)
    assert receiving.acknowledgements() == [(2, 1)]
    assert receiving.acknowledgements() == []


def test_nothing_is_acknowledged_before_the_endpoint_is_live() -> None:
    receiving = Receiving()
    receiving.owner.is_live = False
    receiving.message(sequence=0, kind=END)
    assert receiving.acknowledgements() == []
    receiving.owner.is_live = True
    receiving.flow.owe()
    assert receiving.acknowledgements() == [(1, 0)]


@pytest.mark.parametrize("kind", [CONTROL, END])
def test_a_missing_message_is_a_failure(kind: int) -> None:
    receiving = Receiving()
    receiving.message(sequence=0, kind=kind)
    receiving.message(sequence=2, kind=kind)
    assert receiving.owner.failures == [(1, "message 1 is missing")]
    assert len(receiving.owner.arrivals) == 1


def test_a_header_of_another_length_is_a_failure() -> None:
    receiving = Receiving()
    receiving.message(sequence=0, kind=END, header=HEADER.pack(7, 10, 0, END) + b"more")
    assert receiving.owner.failures == [(1, "message 0 is missing")]


def test_a_flow_that_is_ignored_is_read_but_not_reported() -> None:
    receiving = Receiving()
    receiving.flow.is_ignored = True
    receiving.message(sequence=0, kind=END)
    assert (receiving.owner.arrivals, receiving.acknowledgements()) == ([], [])
    assert not receiving.socket.waiting


@pytest.mark.parametrize(("error", "failures"), [(errno.EHOSTUNREACH, 0), (errno.EFAULT, 1)])
def test_only_a_sender_that_is_gone_may_miss_its_acknowledgement(error: int, failures: int) -> None:
    receiving = Receiving()
    receiving.message(sequence=0, kind=END)
    receiving.socket.error = zmq.ZMQError(error)
    receiving.exchange.settle()
    assert len(receiving.owner.failures) == failures
