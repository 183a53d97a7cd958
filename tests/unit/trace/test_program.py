"""What nodes occupy and for how long."""

from __future__ import annotations

from typing import Any

import pytest

from emulator.errors import TraceError
from emulator.trace.meaning.model import NodeType, Resource, Workload
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
        *("DEVICE", "CPU", "DEVICE", "CPU", "NONE", "NONE", "NETWORK"),
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
