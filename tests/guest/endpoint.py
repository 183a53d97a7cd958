"""Charkha's software NIC against a verbs program in the guest: run in the namespace of this end, prints JSON.

`python -m tests.guest.endpoint SCENARIO HERE GUEST PATH_MTU`. The verbs program takes commands over TCP: it fills its
buffer, posts work requests and receives, reports completions and the CRC of its buffer.
"""

import asyncio
import json
import socket
import sys
import time
import zlib
from collections.abc import Callable, Sequence
from typing import Any

from agents.nic.channel import Channel
from agents.nic.nic import StandaloneNic
from emulator.roce.connection.memory import Memory, MemoryRegion
from emulator.roce.connection.messages import ConnectionSettings, Delivered, Message, Verb
from emulator.roce.connection.qp_facts import QpFacts, gid_of
from emulator.roce.connection.queue_pair import QueuePair
from emulator.roce.options import RoceOptions
from emulator.roce.wire.payload import CONSTANT_BYTE
from emulator.roce.wire.psn import Psn

CONTROL = ("10.99.0.2", 7471)
QPN, FIRST_PSN, RKEY, ADDRESS = 0x11, 0xFFFFF0, 0x77, 0x1000
REGION_BYTES = 1 << 16


class End:
    """This end: a queue pair, and what happened on it."""

    def __init__(self) -> None:
        self.delivered_, self.completed_, self.reason = list[Delivered](), list[Message](), ""
        self._happened = asyncio.Event()
        self.channel: Channel
        self.nic: StandaloneNic

    def delivered(self, index: int, delivered: Delivered, now: int) -> None:
        """See Owner."""
        self.delivered_.append(delivered)
        self._happened.set()

    def completed(self, index: int, messages: Sequence[Message], now: int) -> None:
        """See Owner."""
        self.completed_ += messages
        self._happened.set()

    def broke(self, reason: str) -> None:
        """See Owner."""
        self.reason = reason
        self._happened.set()

    async def post(self, message: Message) -> None:
        """Send a message and wait until it is complete or has failed."""
        before = len(self.completed_)
        self.channel.post(message)
        self.channel.send(time.monotonic_ns())
        self.nic.passes.watch()
        await self.until(lambda: len(self.completed_) > before)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for something that events bring about, or for a failure."""
        async with asyncio.timeout(60):
            while not condition() and not self.reason:
                self._happened.clear()
                await self._happened.wait()


class Verbs:
    """The verbs program."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    def tell(self, command: str) -> None:
        """Give a command."""
        self._writer.write(f"{command}\n".encode())

    async def line(self) -> str:
        """What it says next; that it has posted a request says nothing."""
        async with asyncio.timeout(60):
            while (line := await self._line()).startswith("POSTED"):
                pass
            return line

    async def _line(self) -> str:
        # The program does not send a second line before the first one is acknowledged, which can take 40 ms.
        self._writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
        return (await self._reader.readline()).decode().strip()

    async def ask(self, command: str) -> str:
        """Give a command; returns its answer, or the completion."""
        self.tell(command)
        return await self.line()


async def connected(
    here: str, guest: str, nic: StandaloneNic, path_mtu: int, **responder: Any
) -> tuple[End, Verbs, Any]:
    """A queue pair to the verbs program."""
    reader, writer = await asyncio.open_connection(*CONTROL)
    verbs = Verbs(reader, writer)
    answer = (await verbs.ask(f"{QPN:x} {FIRST_PSN:x} {gid_of(here).hex()}")).split()
    peer_qpn, peer_psn, rkey, where = (int(answer[place], 16) for place in (0, 1, 3, 4))
    end = End()
    facts = QpFacts(
        host=here,
        peer_host=guest,
        qpn=QPN,
        peer_qpn=peer_qpn,
        psn=Psn(FIRST_PSN),
        peer_psn=Psn(peer_psn),
        rkey=RKEY,
        source_ports=(50_000,),
    )
    region = MemoryRegion(rkey=RKEY, address=ADDRESS, length=REGION_BYTES, content=bytearray(REGION_BYTES))
    settings = ConnectionSettings(path_mtu=path_mtu, window_packets=64, ack_interval=32, timeout_exponent=14)
    pair = QueuePair(settings, facts.psn, facts.peer_psn, Memory([region]))
    for name, value in responder.items():
        setattr(pair.responder, name, value)
    end.nic, end.channel = nic, nic.nic.create_foreign(facts, pair, end)
    return end, verbs, (rkey, where, region)


async def transfers(here: str, guest: str, nic: StandaloneNic, path_mtu: int) -> dict[str, Any]:
    """Every verb in both directions; what the guest's buffer holds is compared by CRC, what ours holds byte by byte."""
    end, verbs, (rkey, where, region) = await connected(here, guest, nic, path_mtu)
    wrong = []
    for size in (0, 1, 64, path_mtu, path_mtu + 1, 10_001, 60_000):
        await end.post(Message(Verb.WRITE, size, where, rkey=rkey))
        if (crc := await verbs.ask(f"crc 0 {size:x}")) != f"CRC {zlib.crc32(bytes([CONSTANT_BYTE]) * size):08x}":
            wrong.append(f"WRITE of {size}: {crc}")
    for verb in (Verb.SEND, Verb.SEND_IMM, Verb.WRITE_IMM):
        for size in (1, path_mtu, 10_001):
            await end.post(Message(verb, size, where, 9, rkey))
            completion = (await verbs.line()).split()
            if completion[3:] != ["ok", f"{size:x}", "0" if verb is Verb.SEND else "9"]:
                wrong.append(f"{verb.name} of {size}: {completion}")
    await verbs.ask(f"fill 0 {REGION_BYTES:x} 7")
    for size in (1, path_mtu, 10_001, 50_000):
        await end.post(Message(Verb.READ, size, where, rkey=rkey))
    for size in (1, path_mtu, 10_001, 60_000):
        said = await verbs.ask(f"write 0 {size:x} {ADDRESS:x} {RKEY:x}")
        crc = await verbs.ask(f"crc 0 {size:x}")
        if " ok " not in said or crc != f"CRC {zlib.crc32(region.content[:size]):08x}":
            wrong.append(f"WRITE of the guest, {size}: {said}")
        region.content[:] = bytes(byte ^ 0x5A for byte in region.content)
        said = await verbs.ask(f"read 0 {size:x} {ADDRESS:x} {RKEY:x}")
        crc = await verbs.ask(f"crc 0 {size:x}")
        if " ok " not in said or crc != f"CRC {zlib.crc32(region.content[:size]):08x}":
            wrong.append(f"READ of the guest, {size}: {said} {crc}")
    region.content[8:16] = (41).to_bytes(8, sys.byteorder)
    said = await verbs.ask(f"fadd 0 {ADDRESS + 8:x} {RKEY:x} 1")
    if " ok " not in said or int.from_bytes(region.content[8:16], sys.byteorder) != 42:
        wrong.append(f"FETCH_ADD of the guest: {said}")
    said = await verbs.ask(f"cas 0 {ADDRESS + 8:x} {RKEY:x} 2a 7")
    if " ok " not in said or int.from_bytes(region.content[8:16], sys.byteorder) != 7:
        wrong.append(f"CMP_SWAP of the guest: {said}")
    requester = end.channel.pair.requester
    verbs.tell("quit")
    return {"wrong": wrong, "reason": end.reason, "retransmits": requester.retransmits, "drops": end.channel.pair.drops}


async def refused_by_us(here: str, guest: str, nic: StandaloneNic, path_mtu: int) -> dict[str, Any]:
    """The guest WRITEs with a key that this end does not have."""
    _, verbs, _ = await connected(here, guest, nic, path_mtu)
    began = time.monotonic()
    said = await verbs.ask(f"write 0 40 {ADDRESS:x} {RKEY + 1:x}")
    return {"said": said, "took_s": time.monotonic() - began}


async def refused_by_the_guest(here: str, guest: str, nic: StandaloneNic, path_mtu: int) -> dict[str, Any]:
    """This end WRITEs beyond the guest's region."""
    end, _, (rkey, where, _) = await connected(here, guest, nic, path_mtu)
    began = time.monotonic()
    await end.post(Message(Verb.WRITE, 64, where + (1 << 30), rkey=rkey))
    return {"reason": end.reason, "took_s": time.monotonic() - began}


async def not_ready_here(here: str, guest: str, nic: StandaloneNic, path_mtu: int) -> dict[str, Any]:
    """The guest SENDs, and this end posts a receive 200 ms after it first refused one."""
    end, verbs, _ = await connected(here, guest, nic, path_mtu, receives=0)
    verbs.tell("send 0 40")
    responder = end.channel.pair.responder
    await _counted(lambda: responder.naks)
    early = len(end.delivered_)
    responder.post_receives(1)
    return {"early": early, "said": await verbs.line(), "messages": sum(one.messages for one in end.delivered_)}


async def not_ready_there(here: str, guest: str, nic: StandaloneNic, path_mtu: int) -> dict[str, Any]:
    """This end SENDs, and the guest posts a receive 200 ms after it first refused one."""
    end, verbs, _ = await connected(here, guest, nic, path_mtu)
    posting = asyncio.create_task(end.post(Message(Verb.SEND, 64)))
    await _counted(lambda: end.channel.pair.requester.rnr_naks)
    early = len(end.completed_)
    await verbs.ask("recv 1")
    await posting
    naks = end.channel.pair.requester.rnr_naks
    return {"early": early, "rnr_naks": naks, "said": await verbs.line(), "reason": end.reason}


async def _counted(counter: Callable[[], int]) -> None:
    """Until a queue pair has counted something, and 200 ms more."""
    async with asyncio.timeout(60):
        while not counter():  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.01)
    await asyncio.sleep(0.2)


SCENARIOS = {
    one.__name__: one for one in (transfers, refused_by_us, refused_by_the_guest, not_ready_here, not_ready_there)
}


async def _main(scenario: str, here: str, guest: str, path_mtu: int) -> None:
    with StandaloneNic(here, RoceOptions.parse({"path_mtu": str(path_mtu)})) as nic:
        print(json.dumps(await SCENARIOS[scenario](here, guest, nic, path_mtu)))


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])))
