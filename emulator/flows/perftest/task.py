"""What a user asks for: a test, and with whom."""

from __future__ import annotations

from dataclasses import dataclass

from emulator.flows.perftest.parameters import DEFAULT_PORT, PeerTest
from emulator.roce.options import RoceOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerTask:
    """A test and its peer: exactly one of `server` and `client` is set.

    Attributes:
        test: what to run.
        server: host to connect to.
        client: the only host that may connect.
        port: TCP port of the exchange.
        address: RDMA address of this host; None: the one that the TCP connection uses.
        peer_address: RDMA address of the peer; None: the one that the TCP connection uses.
        options: of the software NIC.
        exchange_address: that a client connects from; None: the one that the system chooses.
        rdma_cm: connect the queue pairs with rdma_cm, as perftest does with -R; the exchange goes over one of them.
    """

    test: PeerTest
    server: str | None = None
    client: str = ""
    port: int = DEFAULT_PORT
    address: str | None = None
    peer_address: str | None = None
    options: RoceOptions
    exchange_address: str | None = None
    rdma_cm: bool = False

    @property
    def peer_command(self) -> str:
        """What the other end must run."""
        server = "THIS-HOST" if self.server is None else None
        return self.test.command(server, port=self.port, rdma_cm=self.rdma_cm)
