"""The receiver of datagrams: its gaps are between the kernel's time stamps."""

import asyncio
import socket
import struct
import time
from collections.abc import Sequence
from zlib import crc32

from agents.annexes.background.udp import UdpReceiver
from agents.nic.stamps import Bracket, Stamps
from agents.nic.system_calls import SO_TIMESTAMPNS, UDP_GRO
from emulator.control.flows import FlowGap
from emulator.flows.background import BackgroundTask, Schedule, WireSize
from emulator.host.clock import clock_id
from emulator.roce.options import RoceOptions

TAG, PEER, SIZE = 7, "127.0.0.1", 8
OFFSET_NS = 1_700_000_000_000_000_000
"""CLOCK_REALTIME minus CLOCK_MONOTONIC."""
SCHEDULE = Schedule(
    pattern="constant", sizes="fixed", size_bytes=SIZE, rate_bps=10**6, peak_bps=10**6, on_ns=10**6,
    wire=WireSize(SIZE, 98), seed=(1, 0),
)  # fmt: skip
TASK = BackgroundTask(
    is_sender=False, transport="udp", address="127.0.0.2", peer_address=PEER, port=1, tag=TAG, schedule=SCHEDULE,
    options=RoceOptions(),
)  # fmt: skip
Control = tuple[int, int, bytes]


class Receptions:
    """A socket with these receptions: data and control messages."""

    def __init__(self, *waiting: tuple[bytes, Sequence[Control]]) -> None:
        self._waiting = list(waiting)

    def recvmsg_into(self, buffers: Sequence[bytearray], _: int) -> tuple[int, Sequence[Control], int, tuple[str, int]]:
        if not self._waiting:
            raise BlockingIOError
        data, control = self._waiting.pop(0)
        buffers[0][: len(data)] = data
        return len(data), control, 0, (PEER, 9)


def datagram(number: int, *, total: int = 1, due_ns: int | None = None) -> bytes:
    clock = 0 if due_ns is None else crc32(clock_id().encode())
    return struct.pack(">IIQIIQ", TAG, total, number, number, clock, due_ns or 0) + bytes(SIZE if total else 0)


def stamped(at_ns: int, *datagrams: bytes) -> tuple[bytes, Sequence[Control]]:
    """One reception, merged if there are several datagrams, that the kernel stamped at this time of CLOCK_MONOTONIC."""
    stamp = struct.pack("=qq", *divmod(at_ns + OFFSET_NS, 1_000_000_000))
    control = [(socket.SOL_SOCKET, SO_TIMESTAMPNS, stamp)]
    if len(datagrams) > 1:
        control.append((socket.IPPROTO_UDP, UDP_GRO, struct.pack("=i", len(datagrams[0]))))
    return b"".join(datagrams), control


def received(*receptions: tuple[bytes, Sequence[Control]]) -> UdpReceiver:
    """A receiver that has read these."""
    one = UdpReceiver(TASK, None)
    one._stamps = Stamps(lambda: Bracket(10**12, 10**12 + OFFSET_NS, 10**12))
    one._socket = Receptions(*receptions)  # type: ignore[assignment]
    one._read()
    return one


def gaps(one: UdpReceiver) -> Sequence[FlowGap]:
    one.counted()
    return one.tally.gaps


async def test_a_gap_lasts_from_stamp_to_stamp_and_not_from_read_to_read() -> None:
    one = received(
        stamped(1_000, datagram(0, due_ns=900), datagram(1, due_ns=950)),  # the fastest one: 50 ns
        stamped(3_000, datagram(2, due_ns=2_900)),
        stamped(9_000, datagram(6, due_ns=8_800)),
    )
    assert gaps(one) == [FlowGap(3_000, 9_000, 3, 150)]
    assert (one.tally.packets, one.tally.lost, one.tally.messages) == (4, 3, 4)


async def test_what_no_datagram_ended_is_a_gap_until_the_job_was_over() -> None:
    one = received(stamped(1_000, datagram(0)), stamped(2_000, datagram(1)))
    assert gaps(one) == []  # it may still come
    before_ns = time.monotonic_ns()
    finishing = asyncio.create_task(one.finish())
    await asyncio.sleep(0)
    after_ns = time.monotonic_ns()
    [found] = gaps(one)
    assert (found.start_ns, found.lost, found.late_ns) == (2_000, None, None)
    assert before_ns <= found.end_ns <= after_ns
    one._socket = Receptions(stamped(8_000, datagram(5, total=0)))  # type: ignore[assignment]
    one._read()
    await finishing
    assert gaps(one) == [FlowGap(2_000, 8_000, 3)]  # its sender says what was lost
