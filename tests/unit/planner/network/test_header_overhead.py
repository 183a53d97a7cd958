import pytest

from emulator.errors import PlanError
from emulator.planner.network.header_overhead import (
    TCP_1500,
    roce_overhead,
    roce_path_mtu,
    tcp_overhead,
    transport_overhead,
)


def test_a_tcp_segment_at_1500() -> None:
    assert (TCP_1500.payload_bytes, TCP_1500.wire_bytes) == (1448, 1538)
    assert tcp_overhead(9000, ipv6=True).payload_bytes == 8928


@pytest.mark.parametrize(("mtu", "path_mtu"), [(1500, 1024), (9000, 4096), (4156, 4096), (4155, 2048), (576, 512)])
def test_the_path_mtu_leaves_room_for_the_first_packets_headers(mtu: int, path_mtu: int) -> None:
    assert roce_path_mtu(mtu) == path_mtu


def test_a_message_over_rocev2() -> None:
    # 14 Ethernet, 4 FCS, 8 preamble, 12 gap, 20 IP, 8 UDP, 12 BTH, 4 ICRC: 82 bytes a packet, and one RETH of 16.
    assert roce_overhead(1500, message_bytes=4096).wire_bytes == 4096 + 4 * 82 + 16
    assert roce_overhead(9000, message_bytes=4097).wire_bytes == 4097 + 2 * 82 + 16
    assert roce_overhead(9000, message_bytes=4096, ipv6=True).wire_bytes == 4096 + 102 + 16
    assert float(roce_overhead(9000).factor) == pytest.approx(1 + (1024 * 82 + 16) / (4 << 20))


def test_what_has_no_room_or_no_name_is_refused() -> None:
    with pytest.raises(PlanError, match="no room"):
        roce_overhead(300)
    with pytest.raises(PlanError, match="no room"):
        tcp_overhead(52)
    with pytest.raises(PlanError, match="'carrier'"):
        transport_overhead("carrier", mtu=1500, message_bytes=1)
    assert transport_overhead("zmq", mtu=1500, message_bytes=1) == TCP_1500


def test_with_the_multipath_profile_every_packet_has_a_reth() -> None:
    plain, sprayed = (roce_overhead(9000, message_bytes=1 << 20, is_sprayed=sprayed) for sprayed in (False, True))
    assert sprayed.wire_bytes - plain.wire_bytes == 255 * 16
