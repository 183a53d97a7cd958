"""What starts after what, and how long CPU time is between, on hand-made events."""

from pathlib import Path

import pytest

from emulator.annexes.importers.model import ImportedNode, NodeResource
from emulator.annexes.importers.pytorch.reading import read_pytorch
from tests.support.pytorch_traces import AUTOGRAD, COMPUTE_STREAM, KinetoDocument, data_parallel_rank, write

OTHER_STREAM = 22


def nodes_of(trace: KinetoDocument, folder: Path) -> list[ImportedNode]:
    write(trace, folder / "kineto.json")
    [rank] = read_pytorch(folder).ranks
    return list(rank.nodes)


def named(nodes: list[ImportedNode], name: str) -> ImportedNode:
    [found] = [one for one in nodes if one.name == name]
    return found


def starts(nodes: list[ImportedNode]) -> dict[int, int]:
    """When each node starts if every one lasts as long as recorded and starts when all before it are done, ns."""
    ends: dict[int, int] = {}
    found = {}
    for one in nodes:
        found[one.node_id] = max((ends[dep] for dep in one.deps), default=one.start_ns)
        ends[one.node_id] = found[one.node_id] + one.duration_ns
    return found


def trace_of_one() -> KinetoDocument:
    return KinetoDocument(rank=0, world_size=1)


def test_played_as_recorded_it_is_as_long_as_recorded(tmp_path: Path) -> None:
    """But for the time from a launch to the start of a kernel, 10 us here, which is nobody's."""
    nodes = nodes_of(data_parallel_rank(0, 1), tmp_path)
    replayed = starts(nodes)
    early = [one.start_ns - replayed[one.node_id] for one in nodes]
    assert min(early) >= 0
    assert max(early) <= 60_000
    ends = [replayed[one.node_id] + one.duration_ns for one in nodes]
    assert max(ends) >= 0.9 * max(one.start_ns + one.duration_ns for one in nodes)


def test_a_kernel_follows_its_launch_and_the_one_before_it_on_the_stream(tmp_path: Path) -> None:
    trace = trace_of_one()
    trace.operator("aten::mm", 0, 100)
    trace.kernel("first", 20, 50, launch=10)
    trace.kernel("second", 70, 5, launch=40)
    nodes = nodes_of(trace, tmp_path)
    first, second = named(nodes, "first"), named(nodes, "second")
    before_first, before_second = (nodes[kernel.deps[0] - 1] for kernel in (first, second))
    assert [before_first.place, before_second.place] == [NodeResource.CPU, NodeResource.CPU]
    assert (before_first.duration_ns, before_second.duration_ns) == (10_000, 30_000)
    assert set(second.deps) == {before_second.node_id, first.node_id}


def test_a_collective_waits_for_the_stream_it_was_called_on(tmp_path: Path) -> None:
    nodes = nodes_of(data_parallel_rank(0, 1), tmp_path)
    first, second = [one for one in nodes if one.place is NodeResource.NETWORK]
    assert named(nodes, "gemm_backward").node_id in first.deps
    assert first.node_id in second.deps


def test_a_stream_that_waits_for_a_collective_depends_on_it(tmp_path: Path) -> None:
    nodes = nodes_of(data_parallel_rank(0, 1), tmp_path)
    collectives = [one.node_id for one in nodes if one.place is NodeResource.NETWORK]
    assert collectives[-1] not in named(nodes, "gemm_backward").deps
    assert collectives[-1] in named(nodes, "sgd").deps


@pytest.mark.parametrize("wait", ["cudaStreamSynchronize", "cudaStreamSynchronize_ptsz", "hipDeviceSynchronize"])
def test_a_wait_of_the_cpu_is_a_dependency_in_place_of_time(wait: str, tmp_path: Path) -> None:
    trace = trace_of_one()
    trace.operator("aten::item", 0, 130)
    trace.kernel("reduce", 20, 80, launch=10)
    trace.runtime(wait, 15, 90)
    nodes = nodes_of(trace, tmp_path)
    reduce = named(nodes, "reduce")
    [after] = [one for one in nodes if reduce.node_id in one.deps]
    assert (after.place, after.start_ns, after.duration_ns) == (NodeResource.CPU, 100_000, 30_000)
    assert sum(one.duration_ns for one in nodes if one.place is NodeResource.CPU) == 45_000


def test_a_wait_for_nothing_is_cpu_time(tmp_path: Path) -> None:
    trace = trace_of_one()
    trace.operator("aten::item", 0, 100)
    trace.runtime("cudaDeviceSynchronize", 10, 50)
    assert sum(one.duration_ns for one in nodes_of(trace, tmp_path)) == 100_000


def test_a_gap_that_another_thread_ends_is_a_dependency(tmp_path: Path) -> None:
    """The main thread waits for the backward pass from 50 to 90."""
    trace = trace_of_one()
    trace.operator("forward", 0, 50)
    trace.operator("backward", 55, 35, tid=AUTOGRAD)
    trace.operator("optimizer", 93, 10)
    nodes = nodes_of(trace, tmp_path)
    forward, backward, optimizer = (named(nodes, name) for name in ("forward", "backward", "optimizer"))
    assert (backward.deps, backward.start_ns, backward.duration_ns) == ((forward.node_id,), 50_000, 40_000)
    assert (set(optimizer.deps), optimizer.start_ns) == ({forward.node_id, backward.node_id}, 90_000)
    assert optimizer.duration_ns == 13_000


def test_a_gap_that_nothing_ends_is_cpu_time(tmp_path: Path) -> None:
    trace = trace_of_one()
    trace.operator("first", 0, 10)
    trace.operator("second", 500, 10)
    assert sum(one.duration_ns for one in nodes_of(trace, tmp_path)) == 510_000


@pytest.mark.parametrize(("copied_until", "waits"), [(60, True), (200, False)])
def test_a_stream_waits_only_for_what_had_ended(copied_until: int, waits: bool, tmp_path: Path) -> None:
    trace = trace_of_one()
    trace.operator("aten::copy", 0, 100)
    trace.kernel("copy", 20, copied_until - 20, launch=10, stream=OTHER_STREAM)
    trace.kernel("before", 30, 5, launch=15, stream=COMPUTE_STREAM)
    trace.runtime("cudaStreamWaitEvent", 30, 1)
    trace.kernel("after", 70, 5, launch=50, stream=COMPUTE_STREAM)
    nodes = nodes_of(trace, tmp_path)
    assert (named(nodes, "copy").node_id in named(nodes, "after").deps) == waits


def test_ids_follow_the_order_of_issue(tmp_path: Path) -> None:
    nodes = nodes_of(data_parallel_rank(0, 1), tmp_path)
    assert [one.node_id for one in nodes] == list(range(1, len(nodes) + 1))
    assert all(dep < one.node_id for one in nodes for dep in one.deps)
