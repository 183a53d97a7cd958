"""A small distributed job of PyTorch on this machine that records its traces and counts what it issues.

    python tests/pytorch/job.py FOLDER

Four processes, Gloo over the loopback interface: data-parallel steps (DistributedDataParallel), all-to-all with
even and uneven splits, messages, and every other collective, in the default group and in groups of two. FOLDER gets the
host traces and the Kineto traces; `issued.txt` in it has what every rank issued, in order, a JSON object a line.
Needs torch (tried with 2.13); nothing of Charkha.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import multiprocessing, nn
from torch.profiler import ExecutionTraceObserver, ProfilerActivity, profile, record_function

RANKS = 4
WARM_UP_STEPS = 3  # DistributedDataParallel arranges its buckets anew after the first step
ELEMENTS = 1 << 14
FLOAT_BYTES = 4


class Job:
    """One process; `issued` is what it has issued since recording began."""

    def __init__(self, rank: int) -> None:
        torch.manual_seed(7)
        self.rank = rank
        self.issued: list[dict[str, Any]] = []
        layers = [layer for _ in range(4) for layer in (nn.Linear(256, 256), nn.ReLU())]
        self.model = nn.parallel.DistributedDataParallel(nn.Sequential(*layers), bucket_cap_mb=0.5)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.pairs = [dist.new_group([0, 1], group_desc="pair"), dist.new_group([2, 3], group_desc="pair")]
        self.pair = self.pairs[rank // 2]
        self.pair_ranks = [0, 1] if rank < 2 else [2, 3]

    def count(self, kind: str, size_bytes: int, **more: Any) -> None:
        """Note an operation: kind, input bytes of this rank, and what else tells it."""
        self.issued.append({"kind": kind, "size_bytes": size_bytes, **more})

    def train(self) -> None:
        """A step; the gradients are all-reduced in buckets."""
        loss = self.model(torch.randn(32, 256)).sum()
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()

    def count_buckets(self) -> None:
        """What DistributedDataParallel says of its buckets."""
        data = self.model._get_ddp_logging_data()
        sizes = [int(size) for size in (data.get("rebuilt_bucket_sizes") or data["bucket_sizes"]).split(",")]
        assert sum(sizes) == FLOAT_BYTES * sum(one.numel() for one in self.model.parameters())
        for size in sizes:
            self.count("all_reduce", size)

    def exchange(self) -> None:
        """All-to-all: even, uneven, and uneven in a group of two."""
        even = torch.randn(ELEMENTS)
        dist.all_to_all_single(torch.empty(ELEMENTS), even)
        self.count("all_to_all", FLOAT_BYTES * ELEMENTS)
        send = [100 * (self.rank + 1) + 10 * to for to in range(RANKS)]
        recv = [100 * (source + 1) + 10 * self.rank for source in range(RANKS)]
        dist.all_to_all_single(torch.empty(sum(recv)), torch.randn(sum(send)), recv, send)
        self.count("all_to_all", FLOAT_BYTES * sum(send), send=[FLOAT_BYTES * one for one in send])
        me = self.rank % 2
        send, recv = ([3, 5], [3, 7]) if me == 0 else ([7, 2], [5, 2])
        with record_function("pg=pair"):
            dist.all_to_all_single(torch.empty(sum(recv), 8), torch.randn(sum(send), 8), recv, send, group=self.pair)
        self.count(
            "all_to_all",
            8 * FLOAT_BYTES * sum(send),
            send=[8 * FLOAT_BYTES * one for one in send],
            group=self.pair_ranks,
        )

    def message(self) -> None:
        """Blocking messages between neighbours, then a batch around the ring."""
        data = torch.randn(1000 + self.rank // 2)
        if self.rank % 2 == 0:
            dist.send(data, self.rank + 1, tag=5)
            self.count("send", FLOAT_BYTES * data.numel(), peer=self.rank + 1)
        else:
            dist.recv(data, self.rank - 1, tag=5)
            self.count("recv", FLOAT_BYTES * data.numel(), peer=self.rank - 1)
        after, before = (self.rank + 1) % RANKS, (self.rank - 1) % RANKS
        sent, received = torch.randn(ELEMENTS), torch.empty(ELEMENTS)
        batch = [dist.P2POp(dist.isend, sent, after), dist.P2POp(dist.irecv, received, before)]
        for work in dist.batch_isend_irecv(batch):
            work.wait()
        self.count("send", FLOAT_BYTES * ELEMENTS, peer=after)
        self.count("recv", FLOAT_BYTES * ELEMENTS, peer=before)

    def collect(self) -> None:
        """Every other collective."""
        shard, whole = torch.randn(ELEMENTS), torch.randn(RANKS * ELEMENTS)
        dist.reduce_scatter_tensor(shard, whole)
        self.count("reduce_scatter", FLOAT_BYTES * RANKS * ELEMENTS)
        dist.all_gather_into_tensor(whole, shard)
        self.count("all_gather", FLOAT_BYTES * ELEMENTS)
        dist.all_gather([torch.empty(ELEMENTS) for _ in range(RANKS)], shard)
        self.count("all_gather", FLOAT_BYTES * ELEMENTS)
        dist.broadcast(shard, 2)
        self.count("broadcast", FLOAT_BYTES * ELEMENTS, root=2)
        dist.reduce(shard, 1)
        self.count("reduce", FLOAT_BYTES * ELEMENTS, root=1)
        parts = [torch.empty(500) for _ in range(RANKS)]
        dist.gather(torch.randn(500), parts if self.rank == 3 else None, 3)
        self.count("gather", FLOAT_BYTES * 500, root=3)
        dist.scatter(torch.empty(500), parts if self.rank == 0 else None, 0)
        self.count("scatter", RANKS * FLOAT_BYTES * 500, root=0)
        half = torch.randn(ELEMENTS).to(torch.bfloat16)
        dist.all_reduce(half)
        self.count("all_reduce", half.element_size() * ELEMENTS)
        with record_function("pg=pair"):
            dist.all_reduce(torch.randn(777), group=self.pair)
            dist.broadcast(torch.randn(333), self.pair_ranks[1], group=self.pair)
        self.count("all_reduce", FLOAT_BYTES * 777, group=self.pair_ranks)
        self.count("broadcast", FLOAT_BYTES * 333, group=self.pair_ranks, root=self.pair_ranks[1])
        dist.barrier()
        self.count("barrier", 0)

    def step(self) -> None:
        """Everything once."""
        self.train()
        self.count_buckets()
        self.exchange()
        self.message()
        self.collect()


def work(rank: int, folder: str) -> None:
    """One process: warm up, record a step, write what was recorded and what was issued."""
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=RANKS)
    job = Job(rank)
    for _ in range(WARM_UP_STEPS):
        job.step()
    dist.barrier()
    job.issued.clear()
    observer = ExecutionTraceObserver().register_callback(f"{folder}/et_{rank}.json")
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True, execution_trace_observer=observer) as profiler:
        job.step()
    profiler.export_chrome_trace(f"{folder}/kineto_{rank}.json")
    lines = [json.dumps({"rank": rank, **one}) + "\n" for one in job.issued]
    Path(folder, f"issued_{rank}.txt").write_text("".join(lines), encoding="utf-8")
    dist.barrier()
    dist.destroy_process_group()


def main(folder: Path) -> None:
    """Run the job."""
    folder.mkdir(parents=True)
    multiprocessing.spawn(work, args=(str(folder),), nprocs=RANKS)
    parts = [folder / f"issued_{rank}.txt" for rank in range(RANKS)]
    (folder / "issued.txt").write_text("".join(one.read_text(encoding="utf-8") for one in parts), encoding="utf-8")
    for one in (*parts, folder / "rendezvous"):
        one.unlink(missing_ok=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute())
