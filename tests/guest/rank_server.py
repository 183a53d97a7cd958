"""Ranks with RDMA devices, for a test on another machine: `python rank_server.py HOST PORT`.

The first connection takes requests, a JSON record a line, and answers each; the second one gets the events of ranks.
"""

import asyncio
import dataclasses
import json
import sys
from typing import Any

from agents.annexes.verbs.transport import VerbsTransport
from emulator.control.conversation import Address
from emulator.errors import EmulatorError
from emulator.transports.registry import VerbsOptions


class Server:
    """The ranks of one test after another."""

    def __init__(self) -> None:
        self._transport: VerbsTransport | None = None
        self._endpoints: dict[int, Any] = {}
        self._events: asyncio.StreamWriter | None = None

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """The connection of requests, or that of events."""
        if (await reader.readline()).strip() == b"events":
            self._events = writer
            return
        while line := await reader.readline():
            try:
                answer = await self._carry_out(*json.loads(line))
            except EmulatorError as error:
                answer = {"error": str(error)}
            writer.write(json.dumps(answer).encode() + b"\n")

    async def _carry_out(self, verb: str, rank: int, argument: Any) -> Any:
        if verb == "reset":
            if self._transport is not None:
                await self._transport.__aexit__()
            self._endpoints.clear()
            options = VerbsOptions(path_mtu=argument["path_mtu"], ring_slots=argument["slots"])
            self._transport = VerbsTransport(message_bytes=argument["message_bytes"], options=options, run="guest")
        elif verb == "open":
            self._endpoints[rank] = await self._transport.open(rank, argument)
            return self._endpoints[rank].address
        elif verb == "connect":
            directory = {int(number): Address(*address) for number, address in argument.items()}
            self._endpoints[rank].connect(directory, _Events(rank, self._send))
        elif verb == "flush":
            for transfer in argument:
                self._endpoints[rank].post(*transfer)
            self._endpoints[rank].flush()
        elif verb == "counters":
            endpoint = self._endpoints[rank]
            return [[dataclasses.asdict(flow) for flow in endpoint.counters()], endpoint.acknowledged_bytes]
        elif verb == "settle":
            for endpoint in self._endpoints.values():
                endpoint.nic.poll()
            self._send(["settled"])
        elif verb == "facts":
            return {name: one.value for name, one in self._transport.facts().items()}
        elif verb == "close":
            self._endpoints[rank].close()
        return None

    def _send(self, event: Any) -> None:
        self._events.write(json.dumps(event).encode() + b"\n")


class _Events:
    def __init__(self, rank: int, send: Any) -> None:
        self._rank, self._send = rank, send

    def arrived(self, peer: int, tag: int, size: int, now: int, count: int = 1) -> None:
        self._send(["arrived", self._rank, peer, tag, size, now, count])

    def acknowledged(self, peer: int, tag: int, now: int) -> None:
        self._send(["acknowledged", self._rank, peer, tag, now])

    def failed(self, peer: int, reason: str) -> None:
        self._send(["failed", self._rank, peer, reason])


async def _main(host: str, port: int) -> None:
    server = await asyncio.start_server(Server().accept, host, port)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1], int(sys.argv[2])))
