"""How ports get their rates: token buckets whose rate is that of the wire, as `charkha plan` counts it."""

from __future__ import annotations

from fractions import Fraction

from emulator.errors import PlanError
from emulator.lab.model import Shaping
from emulator.planner.network.header_overhead import ETHERNET_BYTES, roce_packet_bytes, roce_path_mtu
from emulator.units import BITS_PER_BYTE, NS_PER_S

ETHERNET_HEADER_BYTES = 14
"""What the kernel counts of the ETHERNET_BYTES by itself."""
BURST_NS = 512_000
"""A timer that fires this late costs no bandwidth, and no pause is worth more than this: 6 KB at 100 Mbit/s."""
FAST_BPS, FAST_BURST_NS, MOST_FAST_BURST_BYTES = 200_000_000, 1_280_000, 48_000
"""From this rate on the burst is longer, but not much more than the kernel hands over as one: then a host's bucket lets
frames pass many at a time. One by one each would need a timer, which on a virtual machine costs more than to forward
it. Two pieces must not pass at once: let go on two cores, their frames would overtake each other."""
CALL_SHARE = Fraction(9, 10)
"""Of a host's burst, the longest call of a RoCE agent: with the IP and UDP headers of its frames it passes as one."""
HOST_BURST = Fraction(7, 8)
"""Of a switch's burst. What a host sends at its rate, with the jitter of its timer, then passes a port of the same rate
without waiting: were both bursts the same, one late frame would leave the switch a frame behind for as long as the host
goes on, and every frame would need a timer at both ports."""
QUEUE_NS = 8_000_000
"""Depth of a switch's queue, as time at the port's rate: 100 KB at 100 Mbit/s, 1 MB at 1 Gbit/s."""
LEAST_BURST_FRAMES, LEAST_QUEUE_FRAMES = 2, 32
MERGING_FRAMES, LEAST_MERGING_NS, MOST_MERGING_NS = 2, 50_000, 200_000
HOST_QUEUE_BYTES = 64 << 20
"""A host drops nothing: a full queue holds its sockets up, whose buffers are smaller than this."""


def frame_bytes(mtu: int) -> int:
    """Of the longest frame, as the kernel counts it."""
    return mtu + ETHERNET_HEADER_BYTES


def shape(rate_bps: int | None, *, mtu: int, is_host: bool, queue_bytes: int | None = None) -> Shaping | None:
    """The bucket of a port; None if not specified its rate.

    Args:
        rate_bps: of the link, bit/s.
        mtu: of the link, bytes of an IP packet.
        is_host: whether the port is a host's.
        queue_bytes: of a switch's port, at least a frame; None: as deep as its rate asks for.
    """
    if rate_bps is None:
        return None
    overhead = ETHERNET_BYTES - ETHERNET_HEADER_BYTES
    wire = frame_bytes(mtu) + overhead
    usual = HOST_QUEUE_BYTES if is_host else max(_bytes_in(QUEUE_NS, rate_bps), LEAST_QUEUE_FRAMES * wire)
    queue = usual if queue_bytes is None else max(queue_bytes, wire)
    burst = max(_usual_burst_bytes(rate_bps), LEAST_BURST_FRAMES * wire)
    if is_host:
        burst = int(burst * HOST_BURST)
    if not is_host or rate_bps < FAST_BPS:
        return Shaping(rate_bps, burst, queue, overhead_bytes=overhead, cut_bytes=frame_bytes(mtu))
    # How many frames a piece has the bucket does not know: it counts all bytes in the proportion of a full RoCE packet.
    packet = _full_packet_bytes(mtu)
    counted_bps = rate_bps * (packet - overhead) // packet
    return Shaping(rate_bps, burst, queue, overhead_bytes=0, cut_bytes=burst, bucket_bps=counted_bps)


def call_bytes(rate_bps: int) -> int | None:
    """What an agent at a port of that rate may hand to the kernel at a time and it passes as one piece; UDP payload.

    None: as much as it likes, for the port is slow and cuts it to frames.
    """
    return int(_usual_burst_bytes(rate_bps) * HOST_BURST * CALL_SHARE) if rate_bps >= FAST_BPS else None


def _usual_burst_bytes(rate_bps: int) -> int:
    if rate_bps < FAST_BPS:
        return _bytes_in(BURST_NS, rate_bps)
    return min(_bytes_in(FAST_BURST_NS, rate_bps), MOST_FAST_BURST_BYTES)


def _full_packet_bytes(mtu: int) -> int:
    """On the wire, of the largest RoCE packet that fits."""
    try:
        return roce_packet_bytes(roce_path_mtu(mtu))
    except PlanError:
        return mtu + ETHERNET_BYTES


def merging_ns(rate_bps: int | None, *, mtu: int) -> int:
    """How long after the last frame a host hands on what it merged: MERGING_FRAMES at the rate, within limits."""
    bits = MERGING_FRAMES * (mtu + ETHERNET_BYTES) * BITS_PER_BYTE
    return min(max(bits * NS_PER_S // rate_bps if rate_bps else 0, LEAST_MERGING_NS), MOST_MERGING_NS)


def _bytes_in(span_ns: int, rate_bps: int) -> int:
    return span_ns * rate_bps // (BITS_PER_BYTE * NS_PER_S)
