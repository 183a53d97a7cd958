"""Token buckets of ports: rates as `charkha plan` counts them, bursts, queues, merging."""

import pytest

from emulator.device.lab.shaping import FAST_BPS, QUEUE_NS, call_bytes, merging_ns, shape
from emulator.planner.network.header_overhead import ETHERNET_BYTES, roce_packet_bytes, roce_path_mtu
from emulator.roce.wire.payload import Payload


def test_a_rate_is_that_of_the_wire() -> None:
    shaping = shape(10**8, mtu=1500, is_host=False)
    assert shaping.cut_bytes + shaping.overhead_bytes == 1500 + ETHERNET_BYTES
    assert shaping.limit_bytes == 100_000 == QUEUE_NS * 10**8 // (8 * 10**9)
    assert shape(None, mtu=1500, is_host=True) is None


@pytest.mark.parametrize("rate_bps", [10**6, 10**8, 10**9, 10**10])
@pytest.mark.parametrize("mtu", [1500, 9000])
def test_a_bucket_holds_two_frames_and_a_switch_queues_32(rate_bps: int, mtu: int) -> None:
    shaping = shape(rate_bps, mtu=mtu, is_host=False)
    assert shaping.burst_bytes >= 2 * (mtu + ETHERNET_BYTES)
    assert shaping.limit_bytes >= 32 * (mtu + ETHERNET_BYTES)
    host = shape(rate_bps, mtu=mtu, is_host=True)
    assert mtu + ETHERNET_BYTES < host.burst_bytes < shaping.burst_bytes


@pytest.mark.parametrize(("asked", "queue"), [(1_000_000, 1_000_000), (100, 9000 + ETHERNET_BYTES)])
def test_a_queue_has_room_for_a_frame_whatever_was_asked(asked: int, queue: int) -> None:
    shaping = shape(10**9, mtu=9000, is_host=False, queue_bytes=asked)
    assert shaping.limit_bytes == queue


@pytest.mark.parametrize(
    ("rate_bps", "mtu", "hold_ns"), [(10**9, 1500, 50_000), (2 * 10**8, 1500, 123_040), (10**8, 9000, 200_000)]
)
def test_a_host_merges_for_two_frames_within_limits(rate_bps: int, mtu: int, hold_ns: int) -> None:
    assert merging_ns(rate_bps, mtu=mtu) == hold_ns
    assert merging_ns(None, mtu=mtu) == 50_000


@pytest.mark.parametrize("rate_bps", [FAST_BPS, 4 * 10**8, 10**9, 10**11])
@pytest.mark.parametrize("mtu", [1500, 9000])
@pytest.mark.parametrize("ipv6", [False, True])
def test_one_call_of_an_agent_passes_a_fast_host_at_a_time(rate_bps: int, *, mtu: int, ipv6: bool) -> None:
    shaping, room = shape(rate_bps, mtu=mtu, is_host=True), call_bytes(rate_bps)
    assert room is not None
    path_mtu = roce_path_mtu(mtu, ipv6=ipv6)
    frames = Payload(path_mtu=path_mtu, call_bytes=room).per_call
    wire = roce_packet_bytes(path_mtu, ipv6=ipv6)
    counted = frames * (wire - 24)  # as the kernel has it: every frame with headers, without FCS, preamble and gap
    assert counted <= min(shaping.burst_bytes, shaping.cut_bytes) < 2 * counted
    assert counted <= 0.8 * shaping.burst_bytes  # else a late timer loses tokens after every call
    assert frames >= 5
    assert counted / shaping.bucket_bps == pytest.approx(frames * wire / rate_bps, rel=1e-3 if ipv6 else 1e-7)


def test_a_slow_host_is_handed_as_much_as_a_call_carries() -> None:
    assert call_bytes(FAST_BPS - 1) is None
    assert shape(FAST_BPS - 1, mtu=1500, is_host=True).bucket_bps is None  # type: ignore[union-attr]


def test_a_fast_host_whose_link_has_no_room_for_roce_counts_its_longest_frame() -> None:
    shaping = shape(10**9, mtu=100, is_host=True)
    assert shaping.bucket_bps == 10**9 * 114 // 138
