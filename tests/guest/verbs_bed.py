"""The conformance suite of transports with RDMA devices of guests as ends: run in the namespace of this end.

`python -m tests.guest.verbs_bed SERVER[,SERVER…] PATH_MTU ENDS` prints as JSON what was played and what failed (case to
problem). ENDS has a letter per rank, repeated: g for a rank in a guest, h for one here, with the software NIC.
"""

import asyncio
import json
import socket
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agents.annexes.verbs.transport import VerbsTransport
from agents.transports.base import Endpoint, EndpointEvents
from emulator.control.conversation import Address
from emulator.control.observations import FlowCounters
from emulator.errors import LocalProtocolError
from emulator.transports.registry import VerbsOptions
from tests.integration.transport_conformance import CASES, Bed, acknowledges_only_what_the_peer_has

SERVER_PORT = 7272
FIRST_HERE, FIRST_THERE = 150, 50
"""Addresses of ranks: 10.99.0.(FIRST + rank)."""
PLAYED = [case for case in CASES if case is not acknowledges_only_what_the_peer_has]
"""An order of events on two machines cannot be seen from here."""
DEADLINE_S = 60


class Guest:
    """The server of a guest."""

    def __init__(self, host: str) -> None:
        self._requests = socket.create_connection((host, SERVER_PORT))
        self._requests.sendall(b"requests\n")
        self._answers = self._requests.makefile("rb")
        self.host = host
        self.events: dict[int, EndpointEvents] = {}
        self._settled = asyncio.Event()

    async def listen(self) -> None:
        """Receive events."""
        self._reader, self._writer = await asyncio.open_connection(self.host, SERVER_PORT)
        self._writer.write(b"events\n")
        self._task = asyncio.create_task(self._receive())

    def ask(self, verb: str, rank: int = 0, argument: Any = None) -> Any:
        """Have something done; returns when it is."""
        self._requests.sendall(json.dumps([verb, rank, argument]).encode() + b"\n")
        answer = json.loads(self._answers.readline())
        if isinstance(answer, dict) and "error" in answer:
            raise LocalProtocolError(answer["error"])
        return answer

    async def _receive(self) -> None:
        while line := await self._reader.readline():
            kind, *rest = json.loads(line)
            if kind == "settled":
                self._settled.set()
            elif rest[0] in self.events:
                getattr(self.events[rest[0]], kind)(*rest[1:])

    async def settle(self) -> None:
        """Receive the events of everything that is in the memory of the guest."""
        self._settled.clear()
        self.ask("settle")
        await self._settled.wait()

    async def close(self) -> None:
        """Receive no more events."""
        self._task.cancel()
        self._writer.close()


class RemoteEndpoint:
    """The endpoint of a rank in a guest."""

    def __init__(self, guest: Guest, rank: int, host: str) -> None:
        self.rank, self._guest = rank, guest
        self.address = Address(*guest.ask("open", rank, host))
        self._directory: Mapping[int, Address] = {}
        self._posted: list[tuple[int, int, int]] = []

    def connect(self, directory: Mapping[int, Address], events: EndpointEvents) -> None:
        """See Endpoint."""
        self._guest.ask("connect", self.rank, directory)
        self._directory, self._guest.events[self.rank] = directory, events

    def post(self, peer: int, tag: int, size: int) -> None:
        """See Endpoint."""
        if peer not in self._directory:
            raise LocalProtocolError(f"rank {self.rank} posted to rank {peer}, which is not in its directory")
        self._posted.append((peer, tag, size))

    def flush(self) -> None:
        """See Endpoint."""
        posted, self._posted = self._posted, []
        self._guest.ask("flush", self.rank, posted)

    @property
    def acknowledged_bytes(self) -> int:
        """See Endpoint."""
        return int(self._guest.ask("counters", self.rank)[1])

    def counters(self) -> Sequence[FlowCounters]:
        """See Endpoint."""
        return [FlowCounters(**flow) for flow in self._guest.ask("counters", self.rank)[0]]

    def close(self) -> None:
        """See Endpoint."""
        self._guest.ask("close", self.rank)
        self._guest.events.pop(self.rank, None)


class VerbsBed(Bed):
    """Ranks in guests and here."""

    message_bytes = 4096

    def __init__(self, guests: Sequence[Guest], *, ends: str, path_mtu: int, slots: int = 16) -> None:
        super().__init__()
        self._guests, self._ends = guests, ends
        settings = {"path_mtu": path_mtu, "slots": slots, "message_bytes": self.message_bytes}
        for guest in guests:
            guest.ask("reset", 0, settings)
        options = VerbsOptions(software_nic="all", path_mtu=path_mtu, ring_slots=slots)
        self.here = VerbsTransport(message_bytes=self.message_bytes, options=options, run="guest")

    async def open(self, rank: int) -> Endpoint:
        if self._ends[rank % len(self._ends)] == "h":
            return await self.here.open(rank, f"10.99.0.{FIRST_HERE + rank}")
        return RemoteEndpoint(self._guests[rank % len(self._guests)], rank, f"10.99.0.{FIRST_THERE + rank}")

    async def until(self, reached: Callable[[], bool]) -> None:
        async with asyncio.timeout(DEADLINE_S):
            while not reached():  # noqa: ASYNC110 as in SocketBed
                await asyncio.sleep(0.001)
            for guest in self._guests:  # an acknowledgement may be here before the event of what it acknowledges
                await guest.settle()

    async def quiesce(self) -> None:
        await asyncio.sleep(0.2)


async def _main(hosts: Sequence[str], path_mtu: int, ends: str) -> dict[str, str]:
    failed = {}
    guests = [Guest(host) for host in hosts]
    for guest in guests:
        await guest.listen()
    for case in PLAYED:
        bed = VerbsBed(guests, ends=ends, path_mtu=path_mtu)
        try:
            async with bed.here:
                await case(bed)
        except (Exception, asyncio.CancelledError):
            failed[case.__name__] = traceback.format_exc(limit=-2)
        finally:
            for guest in guests:
                guest.events.clear()
    for guest in guests:
        await guest.close()
    return failed


if __name__ == "__main__":
    problems = asyncio.run(_main(sys.argv[1].split(","), int(sys.argv[2]), sys.argv[3]))
    print(json.dumps({"played": len(PLAYED), "failed": problems}))
