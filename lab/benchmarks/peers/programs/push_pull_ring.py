"""A plain ZeroMQ ring: what a ring all-reduce sends, PUSH to PULL over TCP, nothing summed, nothing acknowledged.

One process per core has its block of the ranks. Prints JSON: the version, and per rank and iteration the times, on the
monotonic clock all processes share, at which it sent its first message and received its last. A barrier is between.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import time
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from typing import Any

import zmq

HOST = "127.0.0.1"
LONGEST_WAIT_S = 120


class Share:
    """The ranks of one process.

    Args:
        ranks: which they are.
        pulls: their listening sockets, by rank.
        pushes: a socket to the next rank, by rank.
        steps: messages that each rank sends and receives in an iteration.
        size: of a message, bytes.
    """

    def __init__(
        self,
        ranks: range,
        pulls: dict[int, zmq.Socket[bytes]],
        pushes: dict[int, zmq.Socket[bytes]],
        *,
        steps: int,
        size: int,
    ) -> None:
        self._ranks, self._pushes, self._steps = ranks, pushes, steps
        self._by_socket = {pull: rank for rank, pull in pulls.items()}
        self._payload = zmq.Frame(bytes(size), copy=True)
        self._poller = zmq.Poller()
        for pull in pulls.values():
            self._poller.register(pull, zmq.POLLIN)

    def play(self) -> list[tuple[int, int]]:
        """One iteration: (post_ns, done_ns) of every rank."""
        received = dict.fromkeys(self._ranks, 0)
        posts, dones = {}, {}
        for rank in self._ranks:
            posts[rank] = time.monotonic_ns()
            self._pushes[rank].send(self._payload, copy=False)
        while len(dones) < len(self._ranks):
            for pull, _ in self._poller.poll(LONGEST_WAIT_S * 1000):
                rank = self._by_socket[pull]
                received[rank] += self._pass_on(pull, rank, received[rank])
                if received[rank] == self._steps:
                    dones[rank] = time.monotonic_ns()
        return [(posts[rank], dones[rank]) for rank in self._ranks]

    def _pass_on(self, pull: zmq.Socket[bytes], rank: int, received: int) -> int:
        """Take what is there, and send on all but the last: how many came."""
        came = 0
        while True:
            try:
                pull.recv(zmq.NOBLOCK, copy=False)
            except zmq.Again:
                return came
            came += 1
            if received + came < self._steps:
                self._pushes[rank].send(self._payload, copy=False)


def work(pipe: Connection, barrier: Barrier, ranks: range, options: argparse.Namespace) -> None:
    """Tell the ports, learn all of them, play, tell the times."""
    with zmq.Context() as context:
        context.linger = 0
        context.max_sockets = 4 * options.ranks
        pulls = {rank: context.socket(zmq.PULL) for rank in ranks}
        pipe.send({rank: pull.bind_to_random_port(f"tcp://{HOST}") for rank, pull in pulls.items()})
        ports = pipe.recv()
        pushes = {rank: context.socket(zmq.PUSH) for rank in ranks}
        for rank, push in pushes.items():
            push.connect(f"tcp://{HOST}:{ports[(rank + 1) % options.ranks]}")
        size = max(1, options.size // options.ranks)
        share = Share(ranks, pulls, pushes, steps=2 * (options.ranks - 1), size=size)
        times = []
        for _ in range(options.warmup + options.iterations):
            barrier.wait(LONGEST_WAIT_S)
            times.append(share.play())
        pipe.send(times[options.warmup :])
        barrier.wait(LONGEST_WAIT_S)
        for one in (*pulls.values(), *pushes.values()):
            one.close()


def main() -> None:
    """Start the processes, collect their times and print them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--size", metavar="BYTES", type=int, required=True, help="of a rank's array")
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--warmup", type=int, default=2)
    options = parser.parse_args()
    spawn = multiprocessing.get_context("spawn")
    count = min(len(os.sched_getaffinity(0)), options.ranks)
    barrier = spawn.Barrier(count)
    pipes, workers = [], []
    for index in range(count):
        ours, theirs = spawn.Pipe()
        ranks = range(index * options.ranks // count, (index + 1) * options.ranks // count)
        worker = spawn.Process(target=work, args=(theirs, barrier, ranks, options), daemon=True)
        worker.start()
        theirs.close()
        pipes.append(ours)
        workers.append(worker)
    ports: dict[int, int] = {}
    for pipe in pipes:
        ports |= pipe.recv()
    for pipe in pipes:
        pipe.send(ports)
    posts: list[Any] = []
    dones: list[Any] = []
    for pipe in pipes:
        for times in zip(*pipe.recv(), strict=True):  # of one rank
            posts.append([post for post, _ in times])
            dones.append([done for _, done in times])
    for worker in workers:
        worker.join()
    print(json.dumps({"version": f"pyzmq {zmq.__version__}", "post_ns": posts, "done_ns": dones}))


if __name__ == "__main__":
    main()
