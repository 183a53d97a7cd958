"""What one communication node means: kinds, sizes, roots, peers, and what makes it unplayable."""

from fractions import Fraction
from typing import Any

import pytest

from emulator.errors import TraceError
from emulator.trace.meaning.meaning import TraceOptions
from emulator.trace.meaning.model import CommKind, Communication, Resource, Workload
from emulator.trace.meaning.workload import build_workload
from tests.support.traces import Node, coll, node, rank_trace, recv, send


def build(nodes: list[Node], ranks: int = 2, **options: Any) -> Workload:
    """The same nodes on every rank."""
    return build_workload([rank_trace(rank, nodes) for rank in range(ranks)], options=TraceOptions(**options))


def only(workload: Workload, rank: int = 0) -> Communication:
    [item] = workload.programs[rank].communications.values()
    return item


def problem_of(nodes: list[Node], ranks: int = 2, **options: Any) -> str:
    with pytest.raises(TraceError) as error:
        build(nodes, ranks, **options)
    prefix = f"trace.0.et, node {nodes[0].id}: "
    assert str(error.value).startswith(prefix)
    return str(error.value).removeprefix(prefix)


@pytest.mark.parametrize("kind", [kind for kind in CommKind if kind.is_collective])
def test_every_collective_number_is_its_kind(kind: CommKind) -> None:
    assert only(build([coll(4, kind.value, 64)])).kind == kind


def test_what_the_file_said_is_kept_and_what_is_trivial_is_counted() -> None:
    item = only(build([node(1), coll(4, "all_reduce", 64, name="x", duration=7, deps=[1])]))
    assert (item.node_id, item.name, item.row, item.traced_duration_micros) == (4, "x", 1, 7)
    assert build([coll(4, "all_reduce", 0)]).warnings == {"collective of size zero": 2}
    assert build([coll(4, "all_reduce", 8)], ranks=1).warnings == {"collective in a group of one": 1}


@pytest.mark.parametrize(
    ("nodes", "problem"),
    [
        ([coll(4, None)], "is a collective on the network without comm_type, so its kind is unknown"),
        ([coll(4, 10)], "has comm_type 10; collectives are numbered 0 to 9"),
        ([coll(4, -1)], "has comm_type -1; collectives are numbered 0 to 9"),
        ([coll(4, "all_reduce", None)], "has no comm_size, so its payload is unknown"),
        ([coll(4, "all_reduce", -8)], "has comm_size -8, which is not a valid payload"),
        ([coll(4, "all_reduce", 2**50 + 1)], f"has comm_size {2**50 + 1}, which is not a valid payload"),
        ([send(4, None)], "sends without comm_dst (traces converted from PyTorch lack it)"),
        ([recv(4, None)], "receives without comm_src (traces converted from PyTorch lack it)"),
        ([send(4, 1, src=1)], "has comm_src 1, but belongs to rank 0"),
        ([recv(4, 1, dst=1)], "has comm_dst 1, but belongs to rank 0"),
        ([send(4, 2)], "has comm_dst 2, but the trace has ranks 0 to 1"),
        ([recv(4, -1)], "has comm_src -1, but the trace has ranks 0 to 1"),
        ([send(4, 0)], "sends to its own rank 0"),
        ([recv(4, 0)], "receives from its own rank 0"),
        ([send(4, 1, None)], "has no comm_size, so its payload is unknown"),
        ([coll(4, "broadcast", root=2)], "names root 2, which is not in its group"),
    ],
)
def test_unplayable_node_is_refused(nodes: list[Node], problem: str) -> None:
    assert problem_of(nodes) == problem


def test_size_beyond_reason_after_scaling_is_refused() -> None:
    assert "is not a valid payload" in problem_of([coll(4, "all_reduce", 2**40)], scale_bytes=2048.0)
    assert "is not a valid payload" in problem_of([coll(4, "all_reduce", 2**40)], element_bytes=2048)
    assert only(build([coll(4, "all_reduce", 2**50)])).size_bytes == 2**50


@pytest.mark.parametrize(
    ("size", "element_bytes", "scale", "played"),
    [
        (10, 1, 1.0, 10),
        (10, 2, 1.0, 20),
        (10, 2, 0.1, 2),
        (1, 1, 0.001, 1),
        (0, 4, 0.001, 0),
        (3, 1, Fraction(1, 3), 1),
        (2**49 + 1, 1, 1.0, 2**49 + 1),
        (10**15, 1, 0.3, 3 * 10**14),
    ],
)
def test_bytes_are_elements_times_scale_exactly(size: int, element_bytes: int, scale: float, played: int) -> None:
    workload = build([coll(4, "all_reduce", size)], element_bytes=element_bytes, scale_bytes=scale)
    assert only(workload).size_bytes == played


def test_barrier_needs_no_size_and_ignores_one() -> None:
    workload = build([coll(4, "barrier", None), coll(5, "barrier", 12)])
    assert [item.size_bytes for item in workload.programs[0].communications.values()] == [0, 0]
    assert workload.warnings == {"barrier with a size": 2}


def test_root_is_the_lowest_rank_unless_named() -> None:
    assert only(build([coll(4, "broadcast")])).root == 0
    assert only(build([coll(4, "reduce", root=1)])).root == 1
    assert only(build([coll(4, "all_reduce", root=1)])).root == -1


def test_root_given_as_an_index_is_refused_with_a_hint() -> None:
    traces = [rank_trace(r, [coll(4, "broadcast", pg="1", root=0)] if r else []) for r in range(3)]
    with pytest.raises(TraceError, match="give a world rank, not an index into the group"):
        build_workload(traces, groups={"1": (1, 2)})


def test_own_side_and_tag_have_defaults() -> None:
    bare = [rank_trace(0, [send(1, 1)]), rank_trace(1, [recv(1, 0)])]
    full = [rank_trace(0, [send(1, 1, src=0, tag=0)]), rank_trace(1, [recv(1, 0, dst=1, tag=0)])]
    assert only(build_workload(bare)) == only(build_workload(full))


def test_communication_on_the_cpu_is_cpu_time() -> None:
    workload = build([coll(4, None, None, cpu=True, duration=3), send(5, None, cpu=True, duration=4)])
    program = workload.programs[0]
    assert not program.communications
    assert program.resource.tolist() == [Resource.CPU, Resource.CPU]
    assert program.duration_ns.tolist() == [3000, 4000]
    assert workload.warnings == {"communication on the CPU": 4}


def test_unknown_attributes_are_counted() -> None:
    traces = [rank_trace(rank, [coll(1, "barrier")], attributes={"mystery": 2}) for rank in range(2)]
    assert build_workload(traces).warnings["unknown communication attribute mystery"] == 4
