"""What the kernel answers about queues and counters, as it comes over netlink; tests/lab has a kernel that answers."""

import struct

import pytest

from emulator.device.netlink import Netlink, counter_objects, messages, root_queues
from emulator.errors import HostError

ROOT = 0xFFFFFFFF


def attribute(kind: int, value: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)


def message(kind: int, body: bytes) -> bytes:
    return struct.pack("=IHHII", 16 + len(body), kind, 2, 0, 0) + body


def discipline(index: int, parent: int, statistics: bytes) -> bytes:
    return struct.pack("=B3xiIII", 0, index, 0x10000, parent, 0) + attribute(1, b"tbf\0") + statistics


def queue(*, drops: int, backlog: int) -> bytes:
    basic = attribute(1, struct.pack("=QI", 9000, 6))
    return attribute(7, basic + attribute(3, struct.pack("=IIIII", 2, backlog, drops, 0, 8)))


def counter(family: int, name: bytes, packets: int, *, kind: int = 1) -> bytes:
    values = attribute(1, struct.pack(">Q", 9000)) + attribute(2, struct.pack(">Q", packets))
    facts = attribute(1, b"charkha\0") + attribute(2, name + b"\0") + attribute(3, struct.pack(">I", kind))
    return struct.pack("=BxH", family, 0) + facts + attribute(0x8004, values)


def test_drops_and_depth_of_a_queue_are_those_of_the_root_discipline() -> None:
    answers = [
        discipline(2, ROOT, queue(drops=5, backlog=7)),
        discipline(2, 0x10001, queue(drops=4, backlog=3)),
        discipline(3, ROOT, b""),
        discipline(4, ROOT, attribute(7, b"")),
    ]
    assert root_queues(iter(answers)) == {2: (5, 7)}


def test_only_counters_are_read_of_the_objects() -> None:
    answers = [counter(7, b"rule_0", 1 << 40), counter(5, b"rule_1", 0), counter(7, b"quota", 3, kind=2)]
    answers.append(counter(99, b"rule_2", 3))
    assert counter_objects(iter(answers)) == {("bridge", "rule_0"): 1 << 40, ("netdev", "rule_1"): 0}


class Answers(Netlink):
    """A kernel that has prepared its answers."""

    def __init__(self, *answers: bytes) -> None:
        self._answers, self.asked = iter(answers), b""

    def send(self, data: bytes, flags: int = 0) -> int:  # type: ignore[override]
        self.asked = data
        return len(data)

    def recv(self, bufsize: int, flags: int = 0) -> bytes:
        return next(self._answers)


def test_a_dump_ends_when_the_kernel_says_so() -> None:
    kernel = Answers(message(36, b"one.") + message(36, b"two."), message(36, b"3...") + message(3, bytes(4)))
    assert list(kernel.dump(38, b"all.")) == [b"one.", b"two.", b"3..."]
    assert list(messages(kernel.asked)) == [(38, b"all.")]


def test_a_refusal_is_an_error_with_its_reason() -> None:
    kernel = Answers(message(2, struct.pack("=i", -1) + bytes(16)))
    with pytest.raises(HostError, match="Operation not permitted"):
        list(kernel.dump(38, b""))
