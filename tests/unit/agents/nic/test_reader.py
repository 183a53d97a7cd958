"""Control messages and sender addresses of received datagrams."""

import socket
import struct

import pytest

from agents.nic.reader import ControlFacts, read_control, socket_name
from agents.nic.system_calls import IPV6_TCLASS, SO_RXQ_OVFL, UDP_GRO


def number(value: int) -> bytes:
    return struct.pack("=i", value)


def test_without_control_messages_a_datagram_is_single_and_unmarked() -> None:
    assert read_control(()) == ControlFacts(stride=0, is_marked=False, drops=None)


@pytest.mark.parametrize(("ecn", "is_marked"), [(0, False), (1, False), (2, False), (3, True)])
@pytest.mark.parametrize(("level", "kind"), [(socket.IPPROTO_IP, socket.IP_TOS), (socket.IPPROTO_IPV6, IPV6_TCLASS)])
def test_only_congestion_experienced_is_a_mark(level: int, kind: int, ecn: int, *, is_marked: bool) -> None:
    traffic_class = 26 << 2 | ecn  # the code point of differentiated services is not part of it
    assert read_control(((level, kind, bytes([traffic_class, 0, 0, 0])),)).is_marked is is_marked


def test_stride_of_merged_datagrams_and_drops_of_the_socket_are_read_together() -> None:
    control = (
        (socket.SOL_SOCKET, SO_RXQ_OVFL, number(17)),
        (socket.IPPROTO_UDP, UDP_GRO, number(4120)),
        (socket.IPPROTO_IP, socket.IP_TOS, b"\x03"),
    )
    assert read_control(control) == ControlFacts(stride=4120, is_marked=True, drops=17)


def test_unknown_control_messages_are_ignored() -> None:
    assert read_control(((socket.SOL_SOCKET, 9999, number(1)),)) == ControlFacts()


def test_an_ipv4_sender_is_address_and_port() -> None:
    name = struct.pack("=H", socket.AF_INET) + struct.pack(">H", 50001) + socket.inet_aton("192.0.2.7") + bytes(8)
    assert socket_name(name) == ("192.0.2.7", 50001)


def test_an_ipv6_sender_keeps_flow_label_and_scope() -> None:
    address = socket.inet_pton(socket.AF_INET6, "fe80::7")
    name = struct.pack("=H", socket.AF_INET6) + struct.pack(">HI", 50001, 5) + address + struct.pack("=I", 3)
    assert socket_name(name) == ("fe80::7", 50001, 5, 3)
