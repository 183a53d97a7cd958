"""Counters of a flow at both ends of a queue pair, as rows that the controller joins."""

from __future__ import annotations

from agents.transports.base import FlowCounters
from agents.transports.roce.channel import Channel

HEADER_DROPS = ("header", "length", "opcode", "refused", "rkey")


def sent(channel: Channel) -> FlowCounters:
    """The counters of the flow that this end sends."""
    pair, connection = channel.pair, channel.connection
    requester = pair.requester
    return FlowCounters(
        src=connection.rank,
        dst=connection.peer,
        bytes=channel.posted_bytes,
        messages=channel.posted_messages,
        packets=requester.sent_packets,
        retransmits=requester.retransmits,
        naks=requester.naks,
        cnps_received=pair.cnps_received,
        rtt_ns=requester.rtt_ns,
        qpn=connection.peer_qpn,
        source_port=channel.source_port,
        timeouts=requester.timeouts,
        rnr_naks=requester.rnr_naks,
    )


def received(channel: Channel) -> FlowCounters:
    """The counters of the flow that this end receives."""
    pair, connection, drops = channel.pair, channel.connection, channel.pair.drops
    responder = pair.responder
    return FlowCounters(
        src=connection.peer,
        dst=connection.rank,
        cnps_sent=pair.cnps_sent,
        ecn_marks=pair.ecn_marks,
        out_of_order=responder.early_packets,
        qpn=connection.own_qpn,
        duplicates=responder.duplicates,
        largest_displacement=responder.largest_displacement,
        dropped_header=sum(drops[reason] for reason in HEADER_DROPS),
        dropped_icrc=drops["icrc"],
        dropped_payload=drops["payload"],
    )
