"""Gloo's all-reduce (torch.distributed) between processes of this host over lo: a float32 sum.

Runs in the peers' environment, which has torch. Prints JSON: the version, and per rank and iteration the times, on the
monotonic clock all processes share, at which the call was made and at which it returned. A barrier is between.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path

os.environ["GLOO_SOCKET_IFNAME"] = "lo"
os.environ["OMP_NUM_THREADS"] = "1"

import torch  # type: ignore[import-not-found]  # it reads the environment
import torch.distributed as dist  # type: ignore[import-not-found]

FLOAT_BYTES = 4


def play(pipe: Connection, store: Path, rank: int, options: argparse.Namespace) -> None:
    """One rank: time its calls, and send the times through the pipe."""
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=options.ranks)
    data = torch.ones(options.size // FLOAT_BYTES)
    posts: list[int] = []
    dones: list[int] = []
    for _ in range(options.warmup + options.iterations):
        data.fill_(1)
        dist.barrier()
        posts.append(time.monotonic_ns())
        dist.all_reduce(data)
        dones.append(time.monotonic_ns())
    if float(data[-1]) != options.ranks:
        raise SystemExit(f"rank {rank}: the sum is wrong")
    pipe.send((posts[options.warmup :], dones[options.warmup :]))
    dist.barrier()
    dist.destroy_process_group()


def main() -> None:
    """Fork the ranks (so that torch is loaded once), collect their times and print them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--size", metavar="BYTES", type=int, required=True)
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--warmup", type=int, default=2)
    options = parser.parse_args()
    fork = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory() as folder:
        pipes = []
        workers = []
        for rank in range(options.ranks):
            ours, theirs = fork.Pipe(duplex=False)
            worker = fork.Process(target=play, args=(theirs, Path(folder) / "store", rank, options), daemon=True)
            worker.start()
            theirs.close()
            pipes.append(ours)
            workers.append(worker)
        try:
            times = [pipe.recv() for pipe in pipes]
        except EOFError:  # a rank ended, and said why
            raise SystemExit(1) from None
        for worker in workers:
            worker.join()
    posts, dones = zip(*times, strict=True)
    print(json.dumps({"version": f"torch {torch.__version__}", "post_ns": posts, "done_ns": dones}))


if __name__ == "__main__":
    main()
