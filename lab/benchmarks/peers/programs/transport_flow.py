"""One flow over a transport of ours: rank 0 in one process keeps transfers to rank 1 in another outstanding.

Everything is as in a run: transfers are acknowledged, and the next is posted when one has been.
Prints JSON: bytes that arrived in the seconds after the warm-up, by the receiver's clock.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import multiprocessing
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection

from agents.annexes.zmq.transport import ZmqTransport
from agents.transports.base import Endpoint, Transport
from agents.transports.roce.transport import RoceTransport
from emulator.control.conversation import Address
from emulator.roce.options import RoceOptions
from emulator.units import NS_PER_S

HOSTS = ("127.1.0.1", "127.1.0.2")
OUTSTANDING = 16


class Flow:
    """An end of the flow: posts while it is the sender, counts while it is the receiver."""

    def __init__(self, endpoint: Endpoint, size: int) -> None:
        self._endpoint, self._size = endpoint, size
        self.arrivals: list[int] = []
        self.failure: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def start(self, directory: Mapping[int, Address]) -> None:
        """Connect; the sender posts what it keeps outstanding."""
        self._endpoint.connect(directory, self)
        if self._endpoint.rank == 0:
            self._post(OUTSTANDING)

    def arrived(self, peer: int, tag: int, size: int, now: int, count: int = 1) -> None:
        """See EndpointEvents."""
        self.arrivals += [now] * count

    def acknowledged(self, peer: int, tag: int, now: int) -> None:
        """See EndpointEvents."""
        self._post(1)

    def failed(self, peer: int, reason: str) -> None:
        """See EndpointEvents."""
        if not self.failure.done():
            self.failure.set_result(reason)

    def _post(self, count: int) -> None:
        for _ in range(count):
            self._endpoint.post(1, 0, self._size)
        self._endpoint.flush()


def window(arrivals: list[int], *, size: int, warmup_s: float, seconds: float) -> dict[str, float]:
    """What arrived after the first arrival past the warm-up, up to the last arrival within the seconds after it."""
    if not arrivals:
        raise SystemExit("nothing arrived")
    begin = arrivals[0] + round(warmup_s * NS_PER_S)
    inside = [now for now in arrivals if begin <= now <= begin + round(seconds * NS_PER_S)]
    if len(inside) < 2:
        raise SystemExit(f"only {len(inside)} transfers arrived in {seconds:g} s")
    return {"received_bytes": (len(inside) - 1) * size, "seconds": (inside[-1] - inside[0]) / NS_PER_S}


async def play(pipe: Connection, rank: int, options: argparse.Namespace) -> None:
    """An end, in its process."""
    async with open_transport(options) as transport:
        endpoint = await transport.open(rank, HOSTS[rank])
        pipe.send({rank: endpoint.address})
        flow = Flow(endpoint, options.size)
        directory = await asyncio.to_thread(pipe.recv)
        gc.freeze()  # as agents do
        flow.start(directory)
        if rank == 1:
            await _sleep_unless_failed(flow, options.warmup + options.seconds + 0.2)
            found = window(flow.arrivals, size=options.size, warmup_s=options.warmup, seconds=options.seconds)
            pipe.send(found)
        await asyncio.to_thread(pipe.recv)


async def _sleep_unless_failed(flow: Flow, seconds: float) -> None:
    done, _ = await asyncio.wait([flow.failure], timeout=seconds)
    if done:
        raise SystemExit(f"the flow failed: {flow.failure.result()}")


def add_transport(parser: argparse.ArgumentParser) -> None:
    """Options that choose the transport under test."""
    parser.add_argument("--transport", choices=("roce", "zmq"), required=True)
    parser.add_argument("--option", metavar="NAME=VALUE", action="append", default=[], help="of RoCE")


def open_transport(options: argparse.Namespace) -> Transport:
    """The transport under test."""
    settings = dict(word.split("=", 1) for word in options.option)
    if options.transport == "roce":
        return RoceTransport(options=RoceOptions.parse(settings), run="flow")
    return ZmqTransport(run="flow")


def enter(pipe: Connection, rank: int, options: argparse.Namespace) -> None:
    """Entry of a process; the event loop is that of agents."""
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(play(pipe, rank, options))


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """Makes the event loop that agents have: that of uvloop, if it is installed."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop
    return uvloop.new_event_loop


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_transport(parser)
    parser.add_argument("--size", metavar="BYTES", type=int, default=1 << 20, help="of a transfer")
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--warmup", metavar="S", type=float, default=0.5)
    options = parser.parse_args()
    spawn = multiprocessing.get_context("spawn")
    pipes = [spawn.Pipe() for _ in HOSTS]
    for rank, (_, theirs) in enumerate(pipes):
        spawn.Process(target=enter, args=(theirs, rank, options), daemon=True).start()
        theirs.close()
    sender, receiver = (ours for ours, _ in pipes)
    try:
        directory = sender.recv() | receiver.recv()
        for pipe in (receiver, sender):
            pipe.send(directory)
        print(json.dumps(receiver.recv()))
    except EOFError:  # a process ended, and said why
        raise SystemExit(1) from None


if __name__ == "__main__":
    main()
