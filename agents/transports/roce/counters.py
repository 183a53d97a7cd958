"""Counters of a flow at both ends of a queue pair, as rows that the controller joins."""

from __future__ import annotations

from agents.nic.channel import Channel
from agents.transports.base import FlowCounters
from emulator.roce.multipath.responder import MultipathResponder

HEADER_DROPS = ("header", "length", "opcode", "refused", "rkey")


def sent(channel: Channel, rank: int, peer: int) -> FlowCounters:
    """The counters of the flow from `rank`, this end, to `peer`."""
    pair = channel.pair
    requester = pair.requester
    return FlowCounters(
        src=rank,
        dst=peer,
        bytes=channel.posted_bytes,
        messages=channel.posted_messages,
        packets=requester.sent_packets,
        retransmits=requester.retransmits,
        naks=requester.naks,
        cnps_received=pair.cnps_received,
        rtt_ns=requester.rtt_ns,
        qpn=channel.facts.peer_qpn,
        source_port=channel.source_port,
        timeouts=requester.timeouts,
        rnr_naks=requester.rnr_naks,
    )


def has_events(channel: Channel) -> bool:
    """Whether anything but clean traffic was counted at this end; far cheaper than its rows."""
    pair = channel.pair
    requester, responder = pair.requester, pair.responder
    return bool(
        requester.retransmits
        or requester.naks
        or requester.timeouts
        or requester.rnr_naks
        or responder.early_packets
        or responder.duplicates
        or responder.copies
        or pair.ecn_marks
        or pair.cnps_sent
        or pair.cnps_received
        or pair.drops
    )


def received(channel: Channel, rank: int, peer: int) -> FlowCounters:
    """The counters of the flow from `peer` to `rank`, this end."""
    pair, drops = channel.pair, channel.pair.drops
    responder = pair.responder
    return FlowCounters(
        src=peer,
        dst=rank,
        cnps_sent=pair.cnps_sent,
        ecn_marks=pair.ecn_marks,
        out_of_order=responder.early_packets,
        qpn=channel.facts.qpn,
        duplicates=responder.duplicates,
        copies=None if isinstance(responder, MultipathResponder) else responder.copies,
        largest_displacement=responder.largest_displacement,
        dropped_header=sum(drops[reason] for reason in HEADER_DROPS),
        dropped_icrc=drops["icrc"],
        dropped_payload=drops["payload"],
    )
