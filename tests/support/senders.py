"""A sender that opens no socket and keeps what it is given."""

from collections.abc import Sequence

from agents.nic.sockets import Sender
from agents.nic.system_calls import ControlMessages, SocketAddress
from emulator.roce.wire.headers import Buffer


class FakeSender(Sender):
    """Keeps (bytes, bytes of each packet but the last, address) of every call."""

    def __init__(self, host: str, port: int, **_: object) -> None:
        self.is_v6, self.port, self.drops, self.buffer_bytes = ":" in host, port, 0, 1
        self.calls: list[tuple[bytes, int, SocketAddress]] = []
        self.has_labels = False

    def send(
        self, pieces: Sequence[Buffer], to: SocketAddress, control: ControlMessages = (), *, packets: int = 1
    ) -> bool:
        """See Sender."""
        whole = b"".join(pieces)
        stride = int.from_bytes(control[0][2], "little") if control else len(whole)
        self.calls.append((whole, stride, to))
        return True

    def send_whole(self, datagram: Buffer, to: SocketAddress) -> None:
        """See Sender."""
        self.calls.append((bytes(datagram), len(datagram), to))

    def use_flow_labels(self) -> None:
        """See Sender."""
        self.has_labels = True

    def close(self) -> None:
        """See Sender."""
