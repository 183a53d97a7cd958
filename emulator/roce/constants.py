"""Facts about RoCEv2 and about this transport that other rooms rely on: each stands here once.

Tuned values that only the data path needs are in emulator/roce/tuning.py.
"""

from __future__ import annotations

from typing import Final

UDP_PORT: Final = 4791
"""UDP destination port of RoCEv2. Source: IANA; InfiniBand Architecture Specification, annex A17."""

FIRST_SOURCE_PORT: Final = 0xC000
"""Source ports are of the ephemeral range: 49152 … 65535. Source: IBTA annex A17; RFC 6335."""

PATH_MTUS: Final = (256, 512, 1024, 2048, 4096)
"""Payload of a full packet, bytes. Source: IBTA volume 1, section 9.4."""

LARGEST_MESSAGE_BYTES: Final = 1 << 31
"""Payload of a message, at most. Source: IBTA volume 1, section 9.4."""

BTH_BYTES: Final = 12
RETH_BYTES: Final = 16
IMMDT_BYTES: Final = 4
AETH_BYTES: Final = 4
ICRC_BYTES: Final = 4
"""Lengths of headers and of the trailer, bytes. Source: IBTA volume 1, chapter 9."""

DEFAULT_MESSAGE_BYTES: Final = 4 << 20
"""Payload of a message unless `--message-bytes` sets it: each message costs packets and a completion of its own."""

LEAST_WINDOW_PACKETS: Final = 16
"""The smallest window of a queue pair, packets; `--window-bytes` cannot make it smaller."""

ACKS_PER_WINDOW: Final = 2
"""A receiver acknowledges, and a sender requests an acknowledgement, every window divided by this."""

ACK_REQUESTS_PER_TIMEOUT: Final = 8
"""A sender whose packets leave slowly requests an acknowledgement at least this often within a timeout."""

LOOKAHEAD_STEPS: Final = 8
"""Steps of a collective for which a rank grants credits ahead of the step it is in."""
