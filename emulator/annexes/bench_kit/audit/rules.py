"""The rules of an audit, and violations of them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class FrameRule(Enum):
    """A requirement on captured frames. Losses, NAKs and retransmissions violate no rule: they are counted."""

    def __init__(self, title: str, meaning: str) -> None:
        self.title = title
        self.meaning = meaning

    ICRC = ("icrc", "the invariant CRC is right")
    TRANSPORT_VERSION = ("transport-version", "the transport version is 0")
    P_KEY = ("p-key", "the P_Key is the default partition's, 0xffff or 0x7fff")
    MALFORMED = (
        "malformed",
        "the packet has the headers of its opcode, the right padding, and payload only if the opcode allows it",
    )
    CNP_SHAPE = ("cnp-shape", "a congestion notification has BECN set, PSN 0 and sixteen zero bytes")
    OPCODE_SEQUENCE = ("opcode-sequence", "messages are FIRST MIDDLE* LAST, or ONLY, of one operation")
    PATH_MTU = ("path-mtu", "FIRST and MIDDLE are exactly one path MTU, LAST 1 byte to one path MTU, ONLY at most one")
    MESSAGE_LENGTH = ("message-length", "the RETH's length is the payload of the message")
    PACKET_ORDER = (
        "packet-order",
        "packets of a flow with the same UDP source port arrive in the order in which they were sent",
    )
    PSN_CONTINUITY = ("psn-continuity", "every acknowledged PSN was sent")
    ACK_UNSENT = ("ack-unsent", "an acknowledgement names a PSN that was sent before")
    NAK_EXPECTED = ("nak-expected", "a sequence-error NAK names the first PSN that did not arrive")
    GO_BACK_N = ("go-back-n", "a retransmission starts at the oldest unacknowledged PSN and continues from there")
    RETRANSMISSION = (
        "retransmission",
        "a repeated PSN carries the same opcode and length as before; a repeated READ asks for the bytes of its PSN",
    )
    RESPONSE = (
        "response",
        "a READ response has the PSN of a READ, an atomic acknowledgement that of an atomic operation",
    )
    MSN = ("msn", "the message sequence number of acknowledgements never decreases")


NEED_EVERY_FRAME = frozenset(
    {
        FrameRule.PACKET_ORDER,
        FrameRule.PSN_CONTINUITY,
        FrameRule.ACK_UNSENT,
        FrameRule.NAK_EXPECTED,
        FrameRule.GO_BACK_N,
    }
)
"""Rules that a packet seems to break if the one before it is in a frame that could not be read."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule that a frame violates.

    Attributes:
        frame: its number from 1, as in packet analysers.
        flow: label of the flow; "" if the frame has none.
    """

    frame: int
    rule: FrameRule
    flow: str
    problem: str
