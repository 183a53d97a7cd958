"""Where ranks live: hosts with a port each, and which rank has which address there.

A topology is settled for a number of ranks: asking it never fails for a rank of the trace. What a file says before
ranks are known is in load.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address

from emulator.errors import PlanError

LOOPBACK_BASE = IPv4Address("127.1.0.1")
"""First address of the default topology: past those that resolvers and hosts files like to use."""
_LOOPBACK_END = IPv4Address("127.255.255.255")


@dataclass(frozen=True, slots=True)
class Host:
    """A machine with one port to the network; `rate_bps` is the port's rate in bit/s, None where nobody says."""

    name: str
    rate_bps: int | None = None


@dataclass(frozen=True, slots=True)
class Topology:
    """Hosts, and the place of every rank on them.

    Attributes:
        name: for people.
        hosts: some may have no rank.
        host_index: per rank, index into `hosts`.
        addresses: per rank, a numeric IP address.
        source: the file it came from, None where it was made.
    """

    name: str
    hosts: Sequence[Host]
    host_index: Sequence[int]
    addresses: Sequence[str]
    source: str | None = None

    @property
    def ranks(self) -> int:
        """How many ranks have a place."""
        return len(self.host_index)

    def host_of(self, rank: int) -> Host:
        """The host a rank lives on."""
        return self.hosts[self.host_index[rank]]

    def address_of(self, rank: int) -> str:
        """The numeric IP address a rank plays at."""
        return self.addresses[rank]

    def rate_bps(self, rank: int) -> int | None:
        """Rate of the port that the rank shares with all ranks of its host, bit/s; None where nobody says."""
        return self.host_of(rank).rate_bps


def default_loopback(ranks: int) -> Topology:
    """One host that needs no set-up: every rank at its own address of 127.0.0.0/8, no port rate.

    Raises:
        PlanError: more ranks than loopback addresses.
    """
    if int(LOOPBACK_BASE) + ranks > int(_LOOPBACK_END):
        raise PlanError(f"{ranks} ranks are more than loopback has addresses for; give a --topology")
    addresses = tuple(str(LOOPBACK_BASE + rank) for rank in range(ranks))
    return Topology("loopback", (Host("loopback"),), (0,) * ranks, addresses)
