"""Identity of a connection: both ends, and the numbers that both compute from it instead of exchanging them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from emulator.roce.connection.qp_facts import QpFacts
from emulator.roce.constants import FIRST_SOURCE_PORT
from emulator.roce.wire.psn import Psn

FIRST_QPN = 16
PORTS_PER_MESSAGE = 16
"""Source ports that a queue pair uses in turn, with one port per message."""


@dataclass(frozen=True, slots=True)
class ConnectionId:
    """Both ends of a queue pair.

    Attributes:
        rank, host: this end.
        peer, peer_host: the other end.
        index: of the queue pair among those of the rank pair; 0 is control.
        qps: queue pairs of a rank pair that carry payload.
    """

    rank: int
    host: str
    peer: int
    peer_host: str
    index: int
    qps: int

    @property
    def own_qpn(self) -> int:
        """Number of the queue pair at this end."""
        return qpn(self.peer, self.index, qps=self.qps)

    @property
    def peer_qpn(self) -> int:
        """Number of the queue pair at the peer."""
        return qpn(self.rank, self.index, qps=self.qps)


def qpn(peer: int, index: int, *, qps: int) -> int:
    """The number of the queue pair that faces rank `peer`; index 0 is control, 1 … `qps` carry payload."""
    return FIRST_QPN + peer * (qps + 1) + index


def first_psn(source: int, target: int, *, index: int, seed: int) -> Psn:
    """PSN of the first packet from one rank to another; both sides compute it."""
    return Psn(Random(f"{seed}/{source}/{target}/{index}").getrandbits(24))


def folded_port(own_qpn: int, peer_qpn: int) -> int:
    """The source port that Linux derives from both queue pair numbers: 14 bits folded from their product."""
    product = own_qpn * peer_qpn
    product ^= product >> 20
    product ^= product >> 40
    label = product & 0xFFFFF
    return FIRST_SOURCE_PORT | (label & 0x3FFF ^ label >> 14)


def source_ports(policy: str, connection: ConnectionId, *, seed: int) -> Sequence[int]:
    """The source ports that a queue pair uses in turn.

    Args:
        policy: fixed, fold, random or message; see docs/roce.md.
        connection: of the queue pair.
        seed: random seed.
    """
    if policy == "fixed":
        return (FIRST_SOURCE_PORT,)
    if policy == "fold":
        return (folded_port(connection.own_qpn, connection.peer_qpn),)
    random = Random(f"{seed}/{connection.rank}/{connection.peer}/{connection.index}/port")
    return [FIRST_SOURCE_PORT | random.getrandbits(14) for _ in range(PORTS_PER_MESSAGE if policy == "message" else 1)]


def qp_facts(connection: ConnectionId, *, port_policy: str, seed: int, rkey: int) -> QpFacts:
    """The facts of a queue pair between two ranks.

    Args:
        connection: both ends.
        port_policy: see `source_ports`.
        seed: of the run, the same at both ends.
        rkey: of the run.
    """
    rank, peer, index = connection.rank, connection.peer, connection.index
    return QpFacts(
        host=connection.host,
        peer_host=connection.peer_host,
        qpn=connection.own_qpn,
        peer_qpn=connection.peer_qpn,
        psn=first_psn(rank, peer, index=index, seed=seed),
        peer_psn=first_psn(peer, rank, index=index, seed=seed),
        rkey=rkey,
        source_ports=source_ports(port_policy, connection, seed=seed),
    )
