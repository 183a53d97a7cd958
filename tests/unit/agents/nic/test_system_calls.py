"""What system calls of sockets take, and batches of them."""

import ctypes
import socket
import struct

import numpy as np
import pytest

from agents.nic import system_calls
from agents.nic.system_calls import (
    UDP_SEGMENT,
    V4_NAME_BYTES,
    V6_NAME_BYTES,
    SendBatch,
    control_bytes,
    cut_message,
    name_bytes,
    socket_address,
)
from emulator.host.batches import CONTROL_HEADER, MESSAGE, PIECE
from emulator.roce.wire.payload import Payload, Staging


@pytest.mark.parametrize(
    ("address", "size"), [(("192.0.2.1", 4791), V4_NAME_BYTES), (("2001:db8::1", 4791, 5, 2), V6_NAME_BYTES)]
)
def test_an_address_has_its_family_and_port_in_network_order(
    address: tuple[str, int] | tuple[str, int, int, int], size: int
) -> None:
    packed = socket_address(*address)
    is_v6 = ":" in address[0]
    assert len(packed) == size == name_bytes(is_v6=is_v6)
    (family,) = struct.unpack_from("=H", packed)
    assert family == (socket.AF_INET6 if is_v6 else socket.AF_INET)
    assert struct.unpack_from(">H", packed, 2) == (4791,)


def test_control_messages_are_aligned_and_have_their_lengths() -> None:
    written = control_bytes(((socket.IPPROTO_IP, socket.IP_TOS, struct.pack("=i", 3)), *cut_message(1040)))
    first, second = socket.CMSG_SPACE(4), socket.CMSG_SPACE(2)
    assert len(written) == first + second
    assert CONTROL_HEADER.unpack_from(written) == (socket.CMSG_LEN(4), socket.IPPROTO_IP, socket.IP_TOS)
    assert CONTROL_HEADER.unpack_from(written, first) == (socket.CMSG_LEN(2), socket.IPPROTO_UDP, UDP_SEGMENT)
    assert struct.unpack_from("=H", written, first + CONTROL_HEADER.size) == (1040,)
    assert control_bytes(()) == b""


NAME = socket_address("192.0.2.1", 4791)


class Kernel:
    """Takes calls as sendmmsg(2) does.

    Attributes:
        calls: payload of every call that was taken.
        most: calls taken at a time; -1: an error.
    """

    def __init__(self) -> None:
        self.calls: list[bytes] = []
        self.names: set[bytes] = set()
        self.controls: set[bytes] = set()
        self.most = 1 << 20

    def sendmmsg(self, fd: int, address: int, count: int, flags: int) -> int:
        taken = min(count, self.most)
        for index in range(max(0, taken)):
            raw = ctypes.string_at(address + index * MESSAGE.itemsize, MESSAGE.itemsize)
            header = np.frombuffer(raw, MESSAGE)[0]["header"]
            pieces = np.frombuffer(
                ctypes.string_at(int(header["pieces"]), int(header["piece_count"]) * PIECE.itemsize), PIECE
            )
            parts = [ctypes.string_at(int(one["base"]), int(one["length"])) for one in pieces]
            self.calls.append(b"".join(parts))
            self.names.add(ctypes.string_at(int(header["name"]), int(header["name_length"])))
            self.controls.add(ctypes.string_at(int(header["control"]), int(header["control_length"])))
        return taken


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    kernel = Kernel()
    monkeypatch.setattr(system_calls, "sendmmsg", kernel.sendmmsg)
    return kernel


@pytest.fixture(params=[(1024, None), (4096, None), (4096, 7)], ids=["in full", "payload once", "random"])
def staging(request: pytest.FixtureRequest) -> Staging:
    """Packets with different headers and ICRCs."""
    path_mtu, seed = request.param
    staging = Staging(Payload(path_mtu=path_mtu, seed=seed))
    for slot in range(staging.slots):
        staging.columns.starts[slot], staging.columns.icrcs[slot] = slot * 0x0101_0101_0101, slot * 0x0031_0301
    return staging


def packets(staging: Staging, slot: int, count: int) -> bytes:
    return b"".join(b"".join(staging.pieces(one, 1)) for one in range(slot, slot + count))


def test_a_run_of_any_length_from_any_slot_is_handed_over(kernel: Kernel, staging: Staging) -> None:
    batch, per_call = SendBatch(staging, is_v6=False), staging.payload.per_call
    for slot, count in ((0, 1), (0, per_call), (3, per_call + 1), (0, staging.slots), (per_call, per_call - 1), (0, 2)):
        kernel.calls.clear()
        count = min(count, staging.slots - slot)
        assert batch.send(5, NAME, slot, count) == count
        assert b"".join(kernel.calls) == packets(staging, slot, count)
        assert all(len(call) == per_call * staging.packet_bytes for call in kernel.calls[:-1])


def test_every_call_has_the_address_and_the_length_of_its_packets(kernel: Kernel, staging: Staging) -> None:
    SendBatch(staging, is_v6=False).send(5, NAME, 0, staging.slots)
    assert kernel.names == {NAME}
    assert kernel.controls == {control_bytes(cut_message(staging.packet_bytes))}


def test_the_address_may_change_from_call_to_call(kernel: Kernel, staging: Staging) -> None:
    batch, other = SendBatch(staging, is_v6=True), socket_address("2001:db8::2", 4791)
    batch.send(5, socket_address("2001:db8::1", 4791), 0, 1)
    kernel.names.clear()
    batch.send(5, other, 0, 1)
    assert kernel.names == {other}


def test_packets_that_were_not_taken_are_not_counted(kernel: Kernel, staging: Staging) -> None:
    batch, per_call = SendBatch(staging, is_v6=False), staging.payload.per_call
    count = min(2 * per_call + 1, staging.slots)
    kernel.most = 1
    assert batch.send(5, NAME, 0, count) == per_call
    kernel.most = -1
    assert batch.send(5, NAME, 0, count) == 0
    kernel.most = 1 << 20
    kernel.calls.clear()
    assert batch.send(5, NAME, 0, count) == count
    assert b"".join(kernel.calls) == packets(staging, 0, count)
