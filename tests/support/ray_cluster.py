"""A Ray cluster of several nodes on this machine; run in a process of its own, until stdin ends."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from subprocess import PIPE, Popen

NODES = 2


@contextmanager
def ray_cluster(prefix: Sequence[str]) -> Iterator[str]:
    """The address of a cluster with one core per node; `prefix`: what stands before its command."""
    words = [*prefix, sys.executable, "-P", "-m", "tests.support.ray_cluster"]
    with Popen(words, stdin=PIPE, stdout=PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.stdin.close()
            process.wait(60)


def _serve() -> None:
    from ray.cluster_utils import Cluster

    stdout = os.dup(1)
    os.dup2(2, 1)  # Ray prints there, too
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    for _ in range(NODES - 1):
        cluster.add_node(num_cpus=1)
    os.write(stdout, f"{cluster.address}\n".encode())
    sys.stdin.read()
    cluster.shutdown()


if __name__ == "__main__":
    _serve()
