"""How fast a large trace is read, and with how much memory: `python lab/benchmarks/trace_reading.py --nodes 1000000`.

Makes one rank of compute nodes as PyTorch's converter writes them (two dependencies, five attributes) with an
all-reduce among every hundred, reads it in a process of its own, reads, checks and splits it in another, and prints
nodes/s and the peak of resident memory.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from emulator._pb import et_pb2
from emulator.trace.files.et import read_rank
from emulator.trace.files.rewrite import write_trace
from emulator.trace.meaning.workload import build_workload

SCHEMA = "aten::linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor"


def synthetic_nodes(count: int) -> Iterator[et_pb2.Node]:
    """A chain of nodes, every hundredth an all-reduce."""
    for node_id in range(count):
        is_communication = node_id % 100 == 99
        node = et_pb2.Node(
            id=node_id,
            name=f"aten::linear layer {node_id}",
            type=et_pb2.COMM_COLL_NODE if is_communication else et_pb2.COMP_NODE,
            ctrl_deps=[node_id - 1] if node_id else [],
            data_deps=[node_id - 2] if node_id > 1 else [],
            duration_micros=node_id % 97,
        )
        if is_communication:
            node.attr.add(name="comm_type", int64_val=et_pb2.ALL_REDUCE)
            node.attr.add(name="comm_size", int64_val=1 << 20)
        for name in ("seq_id", "tid", "scope"):
            node.attr.add(name=name, int64_val=node_id)
        node.attr.add(name="op_schema", string_val=SCHEMA)
        node.attr.add(name="is_cpu_op", bool_val=not is_communication and node_id % 2 == 1)
        yield node


def read_only(path: Path) -> None:
    """Read the trace into columns."""
    read_rank(path, 0)


def read_check_and_split(path: Path) -> None:
    """Read the trace, settle what it means, prove that it ends and split it into programs."""
    build_workload([read_rank(path, 0)])


STAGES: dict[str, Callable[[Path], None]] = {"read": read_only, "read, check, split": read_check_and_split}


def measure(stage: str, path: Path, nodes: int) -> None:
    """Run one stage and print what it cost; meant for a fresh process, whose peak memory is the stage's."""
    idle = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begun, cpu_begun = time.perf_counter(), time.process_time()
    STAGES[stage](path)
    seconds, cpu_seconds = time.perf_counter() - begun, time.process_time() - cpu_begun
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(
        f"{stage}: {nodes:,} nodes in {seconds:.2f} s = {nodes / seconds:,.0f} nodes/s "
        f"({nodes / cpu_seconds:,.0f} per CPU second), "
        f"peak RSS {peak / 1024:,.0f} MiB ({(peak - idle) / 1024:,.0f} above the start)"
    )


def main() -> None:
    """Make the trace, then measure every stage in its own process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--suffix", choices=("", ".gz", ".zst"), default="")
    options = parser.parse_args()
    fresh = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"synthetic.0.et{options.suffix}"
        write_trace(path, synthetic_nodes(options.nodes), attributes={})
        print(f"{path.name}: {path.stat().st_size / (1 << 20):,.0f} MiB")
        for stage in STAGES:
            process = fresh.Process(target=measure, args=(stage, path, options.nodes))
            process.start()
            process.join()
            if process.exitcode:
                raise SystemExit(1)


if __name__ == "__main__":
    main()
