"""The checksums of frames that a switch holds, and the ring in which they wait, with a kernel of the test's own."""

import ctypes
import struct
import time
from collections.abc import Sequence

import numpy as np
import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import ARP, Ether
from scapy.packet import Packet, Raw

from emulator.annexes.bench_kit import delay_line
from emulator.annexes.bench_kit.delay_line import Ring, leave_out_checksums, put_checksums
from emulator.annexes.bench_kit.port_stamps import STAMP_SPACE
from emulator.host.batches import CONTROL_HEADER, MESSAGE, PIECE

PAYLOADS = (b"", b"a", b"ab", bytes(range(256)) * 4, bytes(5), b"\xff\xff")
OTHERS = (
    Ether() / ARP(),
    Ether() / IP() / Raw(b"none"),
    Ether(type=0x86DD) / Raw(bytes(60)),
    Ether() / IP(flags="MF") / UDP(dport=4791, chksum=0x1234) / Raw(bytes(8)),
    Ether() / IP(frag=2, proto=17) / Raw(bytes(4) + b"\x00\x10" + bytes(10)),
    Ether() / IP() / UDP(dport=4791, len=900) / Raw(bytes(8)),
)
EMPTY = Ether() / ARP()


def whole(payload: bytes) -> bytes:
    """A frame as it is to leave."""
    return bytes(Ether() / IP(src="198.18.1.1", dst="198.18.2.1") / UDP(sport=49152, dport=4791) / Raw(payload))


def left_to_nic(frame: bytes) -> bytes:
    return frame[:40] + b"\x12\x34" + frame[42:]


def passed(frames: Sequence[bytes], *, before: int = 0xA5, has_checksums: bool = True) -> list[bytes]:
    """The frames with their checksums, or without, in slots full of what was there before."""
    slots, lengths = np.full((len(frames), 1518), before, np.uint8), np.array([*map(len, frames)], np.uint32)
    for slot, frame in zip(slots, frames, strict=True):
        slot[: len(frame)] = np.frombuffer(frame, np.uint8)
    (put_checksums if has_checksums else leave_out_checksums)(slots, lengths)
    return [slot[:length].tobytes() for slot, length in zip(slots, lengths, strict=True)]


@pytest.mark.parametrize("payload", PAYLOADS)
def test_a_frame_gets_the_checksum_that_its_sender_left_to_the_nic(payload: bytes) -> None:
    assert passed([left_to_nic(whole(payload))]) == [whole(payload)]


def test_frames_leave_without_checksums_on_request() -> None:
    given = [left_to_nic(whole(payload)) for payload in PAYLOADS]
    assert passed(given, has_checksums=False) == [frame[:40] + bytes(2) + frame[42:] for frame in given]


@pytest.mark.parametrize("has_checksums", [False, True])
@pytest.mark.parametrize("frame", OTHERS)
def test_other_frames_stay_as_they_are(frame: Packet, has_checksums: bool) -> None:
    assert passed([bytes(frame)], has_checksums=has_checksums) == [bytes(frame)]


def test_frames_of_a_batch_do_not_touch_one_another() -> None:
    mixed = [frame for payload, other in zip(PAYLOADS, OTHERS, strict=True) for frame in (whole(payload), bytes(other))]
    given = [left_to_nic(frame) if index % 2 == 0 else frame for index, frame in enumerate(mixed)]
    assert passed(given) == mixed


def test_what_pads_a_frame_is_in_no_checksum() -> None:
    assert passed([left_to_nic(whole(b"a")) + b"\x77" * 17]) == [whole(b"a") + b"\x77" * 17]


class Kernel:
    """Gives frames, and takes them."""

    def __init__(self, frames: Sequence[tuple[bytes, int]]) -> None:
        self.waiting, self.taken = list(frames), list[bytes]()

    @staticmethod
    def _piece(message: np.void) -> np.void:
        (piece,) = np.frombuffer(ctypes.string_at(int(message["header"]["pieces"]), PIECE.itemsize), PIECE)
        return piece  # type: ignore[no-any-return]

    def recvmmsg(self, fd: int, address: int, count: int, flags: int, timeout: None) -> int:
        messages = np.ctypeslib.as_array((ctypes.c_uint8 * (count * MESSAGE.itemsize)).from_address(address))
        came, self.waiting = self.waiting[:count], self.waiting[count:]
        for message, (frame, at_s) in zip(messages.view(MESSAGE), came, strict=False):
            piece, message["bytes"] = self._piece(message), len(frame)
            ctypes.memmove(int(piece["base"]), frame, min(int(piece["length"]), len(frame)))
            stamp = CONTROL_HEADER.pack(STAMP_SPACE, 1, 35) + struct.pack("=qq", at_s, 500_000_000)
            ctypes.memmove(int(message["header"]["control"]), stamp, int(message["header"]["control_length"]))
        return len(came)

    def sendmmsg(self, fd: int, address: int, count: int, flags: int) -> int:
        raw = ctypes.string_at(address, count * MESSAGE.itemsize)
        for message in np.frombuffer(raw, MESSAGE):
            assert not message["header"]["control_length"]
            piece = self._piece(message)
            self.taken.append(ctypes.string_at(int(piece["base"]), int(piece["length"])))
        return count


def ring(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> Ring:
    for name in ("recvmmsg", "sendmmsg"):
        monkeypatch.setattr(delay_line, name, getattr(kernel, name))
    return Ring(2.0, "p0", 1518, 3, 4)


def test_a_frame_leaves_so_long_after_the_kernel_saw_it(monkeypatch: pytest.MonkeyPatch) -> None:
    frames = [whole(b"first"), bytes(EMPTY), whole(b"third")]
    kernel = Kernel([(left_to_nic(frame), 100 + at) if at != 1 else (frame, 101) for at, frame in enumerate(frames)])
    held = ring(kernel, monkeypatch)
    held.read()
    assert held.due_s == 102.5
    for now_s, gone in ((102.4, 0), (103.6, 2), (104.5, 3)):
        monkeypatch.setattr(time, "time", lambda now_s=now_s: now_s)
        held.send()
        assert kernel.taken == frames[:gone]
    assert held.due_s is None


def test_frames_go_round_the_ring_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delay_line, "_SLOTS", 8)
    wanted = [whole(bytes([number])) for number in range(21)]
    kernel = Kernel([(left_to_nic(frame), 0) for frame in wanted])
    held = ring(kernel, monkeypatch)
    for _ in range(10):
        held.read()
        held.read()
        held.send()
    assert kernel.taken == wanted


def test_a_frame_longer_than_a_slot_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    held = ring(Kernel([(bytes(1519), 0)]), monkeypatch)
    with pytest.raises(SystemExit, match="port p0: a frame of 1519 bytes"):
        held.read()
