"""What nodes occupy and for how long."""

from typing import Any

import pytest

from emulator.errors import TraceError
from emulator.trace.meaning.model import NodeType, Resource, StorageLevel, Workload
from emulator.trace.meaning.program import exclusive_micros
from emulator.trace.meaning.workload import build_workload
from tests.support.traces import COMP, INVALID, LOAD, METADATA, STORE, Node, coll, node, rank_trace, storage


def build(*nodes: Node) -> Workload:
    return build_workload([rank_trace(0, nodes)])


def test_resources_and_durations() -> None:
    program = build(
        node(1, COMP, duration=1),
        node(2, COMP, duration=2, cpu=True),
        node(3, LOAD, duration=3),
        node(4, STORE, duration=4, cpu=True),
        node(5, METADATA),
        node(6, INVALID),
        coll(7, "all_reduce", duration=7),
    ).programs[0]
    assert [Resource(number).name for number in program.resource] == [
        *("DEVICE", "CPU", "DEVICE", "CPU", "NONE", "NONE", "NETWORK")
    ]
    assert program.duration_ns.tolist() == [1000, 2000, 3000, 4000, 0, 0, 0]
    assert list(program.communications) == [6]


def test_storage_nodes_take_their_recorded_time_on_the_cpu() -> None:
    workload = build(
        node(1, NodeType.BATCH, duration=1), storage(2, "read", 1 << 30, duration=2), node(3, NodeType.CHECKPOINT)
    )
    program = workload.programs[0]
    assert [Resource(number).name for number in program.resource] == ["CPU", "CPU", "CPU"]
    assert program.duration_ns.tolist() == [1000, 2000, 0]
    assert workload.warnings == {"storage node played as its recorded time": 2}
    assert not program.communications


def test_program_is_in_canonical_order() -> None:
    program = build(node(9, duration=9), node(3, duration=3, deps=[9]), node(4, duration=4)).programs[0]
    assert program.order.tolist() == [2, 0, 1]
    assert program.duration_ns.tolist() == [4000, 9000, 3000]
    assert (program.dep_offset.tolist(), program.dep_position.tolist()) == ([0, 0, 0, 1], [1])


def test_oddities_of_nodes_are_counted() -> None:
    odd = build(node(1), node(2, METADATA, duration=4), node(3, INVALID), node(4, ctrl=[1, 1]))
    assert odd.warnings == {
        "duplicate dependency": 1,
        "metadata node with a duration": 1,
        "node of type INVALID": 1,
        "rank without durations": 1,
    }
    assert build(node(1, duration=1), node(2)).warnings == {}
    assert build(coll(1, "barrier", None)).warnings == {"collective in a group of one": 1}


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"duration": -1}, "has the duration -1 µs, which cannot be"),
        ({"duration": 2**40 + 1}, f"has the duration {2**40 + 1} µs, which cannot be"),
        ({"start": -5}, "has the start time -5 µs, which cannot be"),
    ],
)
def test_absurd_times_are_refused(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(TraceError) as error:
        build(node(1), node(2, **fields))
    assert str(error.value) == f"trace.0.et, node 2: {problem}"


def op(i: int, duration: int, parent: int | None = None, **fields: Any) -> Node:
    """A PyTorch operator on the CPU."""
    given = {"cpu": True, "pytorch": True, "ctrl": [] if parent is None else [parent], **fields}
    return node(i, duration=duration, **given)


def played(*nodes: Node) -> list[int]:
    """µs of each node, by id."""
    workload = build_workload([rank_trace(0, nodes)])
    [deducted] = workload.deducted_ns
    durations = workload.programs[0].duration_ns
    assert deducted == sum(item.duration for item in nodes) * 1000 - durations.sum()
    return [int(value) // 1000 for value in durations]


def test_time_of_called_operators_is_deducted_level_by_level() -> None:
    assert played(op(1, 100), op(2, 60, 1), op(3, 30, 1), op(4, 45, 2)) == [10, 15, 30, 45]


def test_a_checkpoint_contains_its_file_operations_and_they_what_happens_on_blocks() -> None:
    block = storage(4, duration=20, ctrl=[3], level=StorageLevel.BLOCK)
    written = storage(3, "write", 1, duration=30, ctrl=[1])
    assert played(node(1, NodeType.CHECKPOINT, duration=100), written, block) == [70, 10, 20]


def test_parent_shorter_than_its_children_is_left_alone() -> None:
    assert played(op(1, 50), op(2, 40, 1), op(3, 30, 1)) == [50, 40, 30]


def test_exclusive_durations_are_recognised_by_those_that_cannot_contain() -> None:
    short = [op(10 + i, 5 if i % 2 == 0 else 9, None if i % 2 == 0 else 9 + i) for i in range(6)]
    assert played(op(1, 100), op(2, 60, 1), *short)[:2] == [100, 60]


def test_start_times_decide_where_both_have_one() -> None:
    contained = [op(1, 100, start=1000), op(2, 60, 1, start=1040), op(3, 10, 1, start=1000)]
    assert played(*contained) == [30, 60, 10]
    after = [op(1, 100, start=1000), op(2, 60, 1, start=1041)]
    assert played(*after) == [100, 60]
    before = [op(1, 100, start=1000), op(2, 60, 1, start=999)]
    assert played(*before) == [100, 60]


def test_overlapping_children_never_make_a_duration_negative() -> None:
    assert played(op(1, 100, start=1), op(2, 80, 1, start=2), op(3, 80, 1, start=2)) == [0, 80, 80]


@pytest.mark.parametrize(
    "fields",
    [{"cpu": False}, {"pytorch": False}, {"ctrl": [], "deps": [1]}, {"ctrl": [0, 1]}],
    ids=["on the device", "no operator", "data dependency", "two parents"],
)
def test_only_calls_between_cpu_operators_count(fields: dict[str, Any]) -> None:
    assert played(node(0), op(1, 100), op(2, 60, 1, **fields)) == [0, 100, 60]


def test_caller_on_the_device_or_dangling_does_not_count() -> None:
    assert played(node(1, duration=100), op(2, 60, 1)) == [100, 60]


def exclusive(*nodes: Node) -> list[int]:
    return exclusive_micros(rank_trace(0, nodes)).tolist()


def calls(count: int, callee: int, **fields: Any) -> list[Node]:
    """Callers of 10 µs, each with one operator of `callee` µs."""
    callers = [op(1000 + i, 10, **fields) for i in range(count)]
    return [*callers, *(op(2000 + i, callee, 1000 + i, **fields) for i in range(count))]


@pytest.mark.parametrize(("contained", "is_deducted"), [(9, True), (8, False)], ids=["9 of 10", "8 of 9"])
def test_without_start_times_nine_tenths_of_the_callers_must_be_long_enough(contained: int, is_deducted: bool) -> None:
    too_short = [op(1, 10), op(2, 11, 1)]
    found = exclusive(*calls(contained, 4), *too_short)
    assert found[:contained] == [6 if is_deducted else 10] * contained
    assert found[contained:] == [4] * contained + [10, 11]


@pytest.mark.parametrize(("contained", "is_deducted"), [(9, True), (8, False)], ids=["9 of 10", "8 of 9"])
def test_with_start_times_nine_tenths_of_the_calls_must_lie_within_their_caller(
    contained: int, is_deducted: bool
) -> None:
    outside = [op(1, 10, start=50), op(2, 4, 1, start=57)]
    found = exclusive(*calls(contained, 4, start=50), *outside)
    assert found[:contained] == [6 if is_deducted else 10] * contained
    assert found[contained:] == [4] * contained + [10, 4]


def test_calls_with_and_without_start_times_are_judged_apart() -> None:
    timed_within = [op(1, 10, start=50), op(2, 4, 1, start=52)]
    untimed_too_long = [op(3, 10), op(4, 11, 3)]
    assert exclusive(*timed_within, *untimed_too_long) == [6, 4, 10, 11]


def test_operators_that_took_no_time_do_not_count_for_the_share() -> None:
    assert exclusive(op(1, 10), op(2, 11, 1), *calls(50, 0))[:2] == [10, 11]


def test_a_rank_without_operators_keeps_its_durations() -> None:
    assert exclusive(node(1, duration=5), node(2, duration=3, ctrl=[1])) == [5, 3]
    assert exclusive() == []


def test_callers_are_found_whatever_the_order_in_the_file() -> None:
    assert exclusive(op(7, 10, 9), op(3, 5, 7), op(9, 40)) == [5, 5, 30]
