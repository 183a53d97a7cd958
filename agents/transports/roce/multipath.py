"""Queue pairs of the multipath profile between two ranks: what both ends make of the options."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import chain

import numpy as np

from agents.nic.channel import Channel, LocalPeer, QueuePairOwner
from agents.nic.context import Context
from agents.nic.nic import SoftwareNic
from agents.nic.spray import SprayTransmitter
from agents.transports.roce.link import LinkChannel
from emulator.control.parameter import Parameter
from emulator.roce.connection.messages import ConnectionSettings
from emulator.roce.connection.qp_facts import QpFacts, packed
from emulator.roce.constants import FIRST_SOURCE_PORT
from emulator.roce.multipath.paths import Health
from emulator.roce.multipath.receiver import MultipathPair, MultipathReceiver
from emulator.roce.pacing import CongestionControl


def make_pair(
    context: Context,
    settings: ConnectionSettings,
    facts: QpFacts,
    health: Health,
    *,
    congestion: CongestionControl,
    cnp_gap_ns: int,
    lead_ns: int,
) -> MultipathPair:
    """The protocol of one end; arguments as for QueuePair."""
    is_batch = context.options.entropy == "batch"
    return MultipathPair(
        settings,
        send_psn=facts.psn,
        expect_psn=facts.peer_psn,
        congestion=congestion,
        cnp_gap_ns=cnp_gap_ns,
        lead_ns=lead_ns,
        health=health,
        batch_packets=context.payload.per_call if is_batch else 1,
    )


def make_channel(
    nic: SoftwareNic,
    facts: QpFacts,
    pair: MultipathPair,
    owner: QueuePairOwner,
    *,
    health: Health,
    index: int,
    local_peer: LocalPeer | None,
) -> Channel:
    """The queue pair on sockets. All peers of a rank see the same source ports: 49152 and those that follow."""
    context = nic.context
    has_labels = context.options.entropy_field == "flow-label"
    if not has_labels:
        facts = replace(facts, source_ports=[FIRST_SOURCE_PORT + value for value in range(health.values)])
    receiver = MultipathReceiver(
        pair,
        context.payload,
        source=packed(facts.peer_host),
        destination=packed(facts.host),
        qpn=facts.qpn,
        rkey=facts.rkey,
        verify_every=context.options.verify_every,
    )
    return nic.create(
        facts,
        pair,
        owner,
        index=index,
        is_control=index == 0,
        local_peer=local_peer,
        receiver=receiver,
        transmitter=SprayTransmitter(context, facts, health, has_labels=has_labels),
    )


def path_facts(channels: Iterable[Iterable[LinkChannel]], *, are_seen: bool) -> Mapping[str, Parameter]:
    """What the queue pairs of an agent have counted on each path, added up; nothing without the profile.

    Args:
        channels: the queue pairs of each rank.
        are_seen: whether truncated frames of all ranks are seen.
    """
    pairs = [one.pair for one in chain.from_iterable(channels) if isinstance(one.pair, MultipathPair)]
    if not pairs:
        return {}
    columns = [pair.dealer.paths for pair in pairs]
    facts = {
        "multipath.trimmed": Parameter(sum(pair.placer.trimmed for pair in pairs), "packets"),
        "multipath.truncated_frames": Parameter("seen" if are_seen else "not seen: this needs CAP_NET_RAW"),
    }
    healths = {id(one.health): one.health for one in columns}.values()
    sums = {
        name: np.sum([getattr(one, column) for one in columns], axis=0)
        for name, column in (
            ("packets", "sent"),
            ("retransmits", "again"),
            ("lost", "lost"),
            ("trimmed", "trimmed"),
            ("marked", "marked"),
        )
    }
    sums["retirements"] = np.sum([health.retirements for health in healths], axis=0)
    for path in range(len(columns[0].sent)):
        for name, total in sums.items():
            unit = "times" if name == "retirements" else "packets"
            facts[f"multipath.path{path}.{name}"] = Parameter(int(total[path]), unit)
    return facts
