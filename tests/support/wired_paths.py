"""Two ends with two addresses each, whose packets a test carries itself."""

from typing import Protocol

from agents.nic.sockets import Sender

HOSTS = (("192.0.2.1", "198.51.100.1"), ("192.0.2.2", "198.51.100.2"))
"""Of each end, the addresses of its paths."""


class Wire(Protocol):
    """Takes what is sent."""

    def put(self, source: str, port: int, to: str, packet: bytes) -> None:
        """A packet leaves an address and port for another address."""
        ...


class WiredSender(Sender):
    """Sends into the network of a test."""

    net: Wire

    def __init__(self, host: str, port: int, **_: object) -> None:
        self.host, self.port, self.is_v6, self.drops, self.buffer_bytes = host, port, False, 0, 1

    def send(self, pieces, to, control=(), *, packets=1) -> bool:  # type: ignore[no-untyped-def]
        self.send_whole(b"".join(pieces), to)
        return True

    def send_whole(self, datagram, to) -> None:  # type: ignore[no-untyped-def]
        self.net.put(self.host, self.port, to[0], bytes(datagram))

    def close(self) -> None:
        pass
