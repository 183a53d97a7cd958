"""Whatever ends a test over rdma_cm, the peer is told with a request to disconnect."""

import asyncio
import signal
from pathlib import Path

from agents.annexes.peer.rdma_cm import CmLink, SendStream
from agents.nic.nic import StandaloneNic
from emulator.roce.options import RoceOptions
from tests.support.command import Command, started, wait_for
from tests.support.loopback import NET, free_port, receives_datagrams

CLIENT, SERVER = f"{NET}.0.215", f"{NET}.0.216"
LIMIT_S = 30


def told(cwd: Path, *, by_signal: bool) -> tuple[int, str]:
    """Exit code and last line of a server that is sent something else, or interrupted, until the peer is told."""

    async def as_a_foreign_client(server: Command, port: int) -> None:
        with StandaloneNic(CLIENT, RoceOptions()) as nic:
            conversation = await CmLink(nic, SERVER, port).connect()
            if by_signal:
                server.process.send_signal(signal.SIGINT)
            else:
                conversation.stream.write(bytes(16))  # what rping begins with
            assert isinstance(conversation.stream, SendStream)
            async with asyncio.timeout(LIMIT_S):
                await conversation.ended.wait()
            conversation.stream.close()

    port = free_port()
    where = ("--from", CLIENT, "--address", SERVER, "--port", port, "--rdma-cm")
    with started("agent", "peer", "serve", *where, cwd=cwd) as server:
        wait_for(lambda: receives_datagrams(SERVER))
        asyncio.run(as_a_foreign_client(server, port))
        finished = server.finish()
    return finished.code, finished.stderr.splitlines()[-1]


def test_a_peer_that_sends_something_else_is_told(tmp_path: Path) -> None:
    code, said = told(tmp_path, by_signal=False)
    assert code == 1
    assert "where perftest sends its version: is it perftest?" in said


def test_a_peer_is_told_when_the_user_interrupts(tmp_path: Path) -> None:
    code, _ = told(tmp_path, by_signal=True)
    assert code == 130
