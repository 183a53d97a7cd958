"""Token buckets of ports. Rates are those on the wire, as `charkha plan` counts them."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from emulator.device.lab.model import Shaping
from emulator.errors import PlanError
from emulator.planner.network.header_overhead import ETHERNET_BYTES, roce_packet_bytes, roce_path_mtu
from emulator.units import BITS_PER_BYTE, NS_PER_S

ETHERNET_HEADER_BYTES = 14
"""The part of ETHERNET_BYTES that the kernel counts by itself."""
BURST_NS = 512_000
"""Burst as time at the rate: a timer up to this late costs no bandwidth. 6 KB at 100 Mbit/s."""
FAST_BPS, FAST_BURST_NS, MOST_FAST_BURST_BYTES = 200_000_000, 1_280_000, 48_000
"""From FAST_BPS on, a burst is longer, but not much longer than a GSO batch: a host's bucket then passes many frames at
a time. Frame by frame, each would need a timer, which costs more than forwarding it on a virtual machine. Two batches
must not pass at once: on two cores, their frames would overtake each other."""
CALL_SHARE = Fraction(3, 4)
"""Longest call of a RoCE agent / burst of its host. With the headers of its frames it passes as one, and the bucket's
timer may be 78 µs late for it: with 9/10 it was 25 µs, and the port lost 1.3 % of its rate beside two busy agents
(lab.benchmarks.verdicts late)."""
HOST_BURST = Fraction(7, 8)
"""Burst of a host / burst of a switch. Traffic of a host at its rate, with the jitter of its timer, then passes a
switch port of the same rate without waiting. With equal bursts, one late frame would leave the switch a frame behind
until the host pauses, and every frame would need a timer at both ports."""
SLOWED_BURST = Fraction(9, 8)
"""Burst of a port that a profile slows / its usual one. Such a port always has a queue, so every burst ends in a timer,
and what a timer is late is lost. At 97 % of 1 Gbit/s, 4 MiB took 1.037 times as long as at 100 % with the usual burst,
and 1.032 with this (lab.benchmarks.verdicts compare)."""
QUEUE_NS = 8_000_000
"""Depth of a switch's queue, as time at the port's rate: 100 KB at 100 Mbit/s, 1 MB at 1 Gbit/s."""
LEAST_BURST_FRAMES, LEAST_QUEUE_FRAMES = 2, 32
MERGING_FRAMES, LEAST_MERGING_NS, MOST_MERGING_NS = 2, 50_000, 200_000
HOST_QUEUE_BYTES = 64 << 20
"""A host drops nothing: a full queue blocks its sockets, whose buffers are smaller than this."""


def frame_bytes(mtu: int) -> int:
    """Length of the longest frame, as the kernel counts it."""
    return mtu + ETHERNET_HEADER_BYTES


def shape(rate_bps: int | None, *, mtu: int, is_host: bool, queue_bytes: int | None = None) -> Shaping | None:
    """The token bucket of a port; None if the port has no rate.

    Args:
        rate_bps: rate of the link, bit/s; None: not specified.
        mtu: largest IP packet of the link, bytes.
        is_host: whether the port belongs to a host.
        queue_bytes: depth of a switch port's queue, raised to one frame if smaller; None: derived from the rate.
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
    # The bucket does not know how many frames a batch has: it assumes full RoCE packets.
    packet = _full_packet_bytes(mtu)
    counted_bps = rate_bps * (packet - overhead) // packet
    return Shaping(rate_bps, burst, queue, overhead_bytes=0, cut_bytes=burst, bucket_bps=counted_bps)


def slowed(shaping: Shaping) -> Shaping:
    """The token bucket of a port while a profile slows it."""
    return replace(shaping, burst_bytes=int(shaping.burst_bytes * SLOWED_BURST))


def call_bytes(rate_bps: int) -> int | None:
    """Largest call, bytes of UDP payload, that passes a host's port of that rate as one GSO batch.

    None: no limit, because a slow port cuts batches to frames.
    """
    return int(_usual_burst_bytes(rate_bps) * HOST_BURST * CALL_SHARE) if rate_bps >= FAST_BPS else None


def _usual_burst_bytes(rate_bps: int) -> int:
    if rate_bps < FAST_BPS:
        return _bytes_in(BURST_NS, rate_bps)
    return min(_bytes_in(FAST_BURST_NS, rate_bps), MOST_FAST_BURST_BYTES)


def _full_packet_bytes(mtu: int) -> int:
    """Bytes on the wire of the largest RoCE packet that fits."""
    try:
        return roce_packet_bytes(roce_path_mtu(mtu))
    except PlanError:
        return mtu + ETHERNET_BYTES


def merging_ns(rate_bps: int | None, *, mtu: int) -> int:
    """How long a host waits for further frames before it delivers merged ones: MERGING_FRAMES at the rate, limited."""
    bits = MERGING_FRAMES * (mtu + ETHERNET_BYTES) * BITS_PER_BYTE
    return min(max(bits * NS_PER_S // rate_bps if rate_bps else 0, LEAST_MERGING_NS), MOST_MERGING_NS)


def _bytes_in(span_ns: int, rate_bps: int) -> int:
    return span_ns * rate_bps // (BITS_PER_BYTE * NS_PER_S)
