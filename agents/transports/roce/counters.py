"""What the two ends of a queue pair know of the flow between them, as rows that the controller joins."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from agents.transports.base import FlowCounters

if TYPE_CHECKING:
    from agents.transports.roce.channel import Channel

HEADER_DROPS = ("header", "length", "opcode", "refused", "rkey")
_NO_DROPS: Counter[str] = Counter()


def sent(channel: Channel) -> FlowCounters:
    """What this end has sent."""
    pair, ends = channel.pair, channel.ends
    requester = pair.requester
    return FlowCounters(
        src=ends.rank,
        dst=ends.peer,
        bytes=channel.posted_bytes,
        messages=channel.posted_messages,
        packets=requester.sent_packets,
        retransmits=requester.retransmits,
        naks=requester.naks,
        cnps_received=pair.cnps_received,
        rtt_ns=requester.rtt_ns,
        qpn=ends.peer_qpn,
        source_port=channel.source_port,
        timeouts=requester.timeouts,
        rnr_naks=requester.rnr_naks,
    )


def received(channel: Channel) -> FlowCounters:
    """What has come to this end."""
    pair, ends, drops = channel.pair, channel.ends, channel.drops or _NO_DROPS
    responder = pair.responder
    return FlowCounters(
        src=ends.peer,
        dst=ends.rank,
        cnps_sent=pair.cnps_sent,
        ecn_marks=pair.ecn_marks,
        out_of_order=responder.early_packets,
        qpn=ends.own_qpn,
        duplicates=responder.duplicates,
        largest_displacement=responder.largest_displacement,
        dropped_header=sum(drops[reason] for reason in HEADER_DROPS),
        dropped_icrc=drops["icrc"],
        dropped_payload=drops["payload"],
    )
