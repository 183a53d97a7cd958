"""Facts about RoCEv2 and about this transport that other rooms rely on: each stands here once.

Tuned values that only the data path needs are in emulator/roce/tuning.py.
"""

from __future__ import annotations

UDP_PORT = 4791
"""UDP destination port of RoCEv2. Source: IANA; InfiniBand Architecture Specification, annex A17."""

FIRST_SOURCE_PORT = 0xC000
"""Source ports are of the ephemeral range: 49152 … 65535. Source: IBTA annex A17; RFC 6335."""

PATH_MTUS = (256, 512, 1024, 2048, 4096)
"""Payload of a full packet, bytes. Source: IBTA volume 1, section 9.4."""

LARGEST_MESSAGE_BYTES = 1 << 31
"""Payload of a message, at most. Source: IBTA volume 1, section 9.4."""

BTH_BYTES, RETH_BYTES, IMMDT_BYTES, AETH_BYTES, ICRC_BYTES = 12, 16, 4, 4, 4
"""Lengths of headers and of the trailer, bytes. Source: IBTA volume 1, chapter 9."""

DEFAULT_MESSAGE_BYTES = 4 << 20
"""Payload of a message unless `--message-bytes` sets it: each message costs packets and a completion of its own."""

LEAST_WINDOW_PACKETS = 16
"""The smallest window of a queue pair, packets; `--window-bytes` cannot make it smaller."""

ACKS_PER_WINDOW = 2
"""A receiver acknowledges, and a sender requests an acknowledgement, every window divided by this."""

ACK_REQUESTS_PER_TIMEOUT = 8
"""A sender whose packets leave slowly requests an acknowledgement at least this often within a timeout."""

LOOKAHEAD_STEPS = 8
"""Steps of a collective for which a rank grants credits ahead of the step it is in."""
