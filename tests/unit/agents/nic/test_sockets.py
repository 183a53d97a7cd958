"""Sharing of sending sockets, and errors in words. tests/integration/test_roce_sockets.py has real sockets."""

import errno
import socket
import struct
from collections import Counter
from pathlib import Path

import pytest

from agents.nic import sockets
from agents.nic.sockets import Sender, Senders, traffic_class_message
from agents.nic.system_calls import IPV6_TCLASS


class SenderDouble(Sender):
    """A sending socket that is not opened; `buffer_bytes` differs from port to port."""

    def __init__(self, host: str, port: int, *, traffic_class: int, device: str | None = None) -> None:
        self.host, self.port, self.traffic_class, self.device = host, port, traffic_class, device
        self.buffer_bytes, self.drops, self.is_closed = 1000 + port, 0, False

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def senders(monkeypatch: pytest.MonkeyPatch) -> Senders:
    """Senders of a process in which 64 descriptors are left for sockets."""
    monkeypatch.setattr(sockets, "_SPARE_DESCRIPTORS", 0)
    monkeypatch.setattr(sockets, "_raise_descriptor_limit", lambda: len([*Path("/proc/self/fd").iterdir()]) + 64)
    return Senders(traffic_class=0x68, devices={"192.0.2.1": "eth1"}, make=SenderDouble)


def test_a_socket_is_opened_once_per_address_and_port_until_the_address_is_closed(senders: Senders) -> None:
    first = senders.get("192.0.2.1", 5)
    assert senders.get("192.0.2.1", 5) is first
    assert senders.get("192.0.2.1", 6) is not first
    assert senders.get("192.0.2.2", 5) is not first
    assert senders.least_buffer_bytes == 1005
    senders.close("192.0.2.1")
    assert senders.get("192.0.2.1", 5) is not first


def test_sockets_use_the_traffic_class_and_the_interface_of_their_address(senders: Senders) -> None:
    bound, free = senders.get("192.0.2.1", 5), senders.get("192.0.2.2", 5)
    assert isinstance(bound, SenderDouble)
    assert isinstance(free, SenderDouble)
    assert (bound.traffic_class, bound.device, free.device) == (0x68, "eth1", None)


def test_at_the_limit_of_open_files_sockets_of_the_address_are_shared(senders: Senders) -> None:
    opened = [senders.get("192.0.2.1", port) for port in range(64)]
    assert (len(set(opened)), senders.shared) == (64, 0)
    assert senders.get("192.0.2.1", 1000) in opened
    assert (senders.opened, senders.shared) == (64, 1)


def test_half_of_the_sockets_are_reserved_evenly_and_the_rest_go_to_who_asks_first(senders: Senders) -> None:
    hosts = [f"192.0.2.{number}" for number in range(8)]
    for host in hosts:
        senders.add_host(host)
    found = {host: {senders.get(host, port) for port in range(100)} for host in hosts}
    assert [len(there) for there in found.values()] == [4 + 32, *[4] * 7]
    assert senders.opened == 64
    assert {sender.host for sender in found["192.0.2.7"] if isinstance(sender, SenderDouble)} == {"192.0.2.7"}


def test_queue_pairs_that_share_use_all_ports_of_their_address_alike(senders: Senders) -> None:
    for port in range(64):
        senders.get("192.0.2.1", port)
    uses = Counter(senders.get("192.0.2.1", port).port for port in range(1000, 1640))
    assert (len(uses), set(uses.values())) == (64, {10})


def test_an_address_has_a_socket_even_when_none_is_left(senders: Senders) -> None:
    for number in range(100):
        senders.add_host(f"192.0.2.{number}")
    for number in range(100):
        assert senders.get(f"192.0.2.{number}", 5).port == senders.get(f"192.0.2.{number}", 6).port


def test_sockets_beyond_its_share_return_when_an_address_closes(senders: Senders) -> None:
    for host in ("192.0.2.1", "192.0.2.2"):
        senders.add_host(host)
    for port in range(100):
        senders.get("192.0.2.1", port)
    senders.close("192.0.2.1")
    assert len({senders.get("192.0.2.2", port) for port in range(100)}) == 16 + 32


def test_drops_of_closed_sockets_still_count(senders: Senders) -> None:
    near, far = senders.get("192.0.2.1", 5), senders.get("192.0.2.2", 5)
    near.drops, far.drops = 3, 4
    senders.close("192.0.2.1")
    assert isinstance(near, SenderDouble)
    assert isinstance(far, SenderDouble)
    assert (near.is_closed, far.is_closed, senders.drops) == (True, False, 7)
    senders.close()
    assert (far.is_closed, senders.drops) == (True, 7)


@pytest.mark.parametrize(
    ("is_v6", "level", "kind"), [(False, socket.IPPROTO_IP, socket.IP_TOS), (True, socket.IPPROTO_IPV6, IPV6_TCLASS)]
)
def test_a_datagram_may_have_a_traffic_class_of_its_own(is_v6: bool, level: int, kind: int) -> None:
    assert traffic_class_message(0xC0, is_v6=is_v6) == ((level, kind, struct.pack("=i", 0xC0)),)


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (errno.EADDRNOTAVAIL, "192.0.2.1 is not an address of this host"),
        (errno.EADDRINUSE, "UDP port 4791 of 192.0.2.1 is in use; every rank needs its own address"),
        (errno.EMFILE, "raise `ulimit -n`"),
        (errno.EACCES, "cannot use UDP port 4791 of 192.0.2.1: Permission denied"),
    ],
)
def test_a_socket_that_cannot_be_bound_is_explained(code: int, text: str) -> None:
    error = sockets._bind_error("192.0.2.1", 4791, OSError(code, "Permission denied"))
    assert text in str(error)
