"""Agents with RoCE for tests."""

from functools import partial

from agents.transports.roce.transport import RoceTransport
from emulator.roce.options import RoceOptions
from tests.integration.socket_bed import SocketBed, play
from tests.support.loopback import NET


class RoceBed(SocketBed[RoceTransport]):
    """A number of agents with RoCE."""

    def __init__(self, agents: int = 2, *, message_bytes: int = 4096, **options: object) -> None:
        super().__init__()
        self.message_bytes = message_bytes
        texts = {"path_mtu": 1024, "qp_timeout": 11, "window_bytes": 8 * message_bytes} | options
        parsed = RoceOptions.parse({name: str(value) for name, value in texts.items()})
        self.transports = [
            RoceTransport(message_bytes=message_bytes, options=parsed, run="conformance") for _ in range(agents)
        ]

    def host(self, rank: int) -> str:
        return f"{NET}.0.{rank + 1}"


run = partial(play, RoceBed)
