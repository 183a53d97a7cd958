"""Open MPI's MPI_Allreduce under mpirun: a float32 sum.

Runs in the peers' environment, which has mpi4py. Rank 0 prints JSON: the version, and per rank and iteration the times,
on the monotonic clock all processes share, at which the call was made and at which it returned. A barrier is between.
"""

from __future__ import annotations

import argparse
import json
import time

import numpy as np
from mpi4py import MPI  # type: ignore[import-not-found]


def main() -> None:
    """Time the calls of this rank; rank 0 gathers and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", metavar="BYTES", type=int, required=True)
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--warmup", type=int, default=2)
    options = parser.parse_args()
    world = MPI.COMM_WORLD
    data = np.ones(options.size // 4, np.float32)
    total = np.empty_like(data)
    posts: list[int] = []
    dones: list[int] = []
    for _ in range(options.warmup + options.iterations):
        world.Barrier()
        posts.append(time.monotonic_ns())
        world.Allreduce([data, MPI.FLOAT], [total, MPI.FLOAT], op=MPI.SUM)
        dones.append(time.monotonic_ns())
    if total[-1] != world.size:
        raise SystemExit(f"rank {world.rank}: the sum is wrong")
    times = world.gather((posts[options.warmup :], dones[options.warmup :]), root=0)
    if times is not None:
        post_ns, done_ns = zip(*times, strict=True)
        version = MPI.Get_library_version().split(",")[0]
        print(json.dumps({"version": version, "post_ns": post_ns, "done_ns": done_ns}))


if __name__ == "__main__":
    main()
