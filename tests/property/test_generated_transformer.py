"""Any transformer: its nodes are what the closed form says, are ordered, and can be played to the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.planner.workloads.pipeline_schedule import PipelineSchedule
from emulator.planner.workloads.synthetic import WORLD_GROUP, GroupRole, SyntheticWorkload, WorkNode
from emulator.planner.workloads.transformer import Transformer
from emulator.planner.workloads.transformer_workload import transformer_workload
from emulator.trace.model import CommKind
from tests.support.full import examples
from tests.support.virtual_world import stuck_nodes


@st.composite
def transformers(draw: st.DrawFn) -> Transformer:
    small = st.integers(1, 3)
    tensor, pipeline, data, micro_batches = draw(small), draw(small), draw(small), draw(st.integers(1, 5))
    return Transformer(
        layers=pipeline * draw(small),
        hidden=tensor * draw(st.integers(1, 50)),
        sequence=draw(st.integers(1, 100)),
        batch=data * micro_batches * draw(small),
        micro_batches=micro_batches,
        vocabulary=tensor * draw(st.integers(1, 1000)),
        ffn_multiplier=draw(small),
        dtype_bytes=draw(st.sampled_from([1, 2, 4])),
        tensor=tensor,
        pipeline=pipeline,
        data=data,
        schedule=draw(st.sampled_from(PipelineSchedule)),
        recompute=draw(st.booleans()),
        shard_optimizer=draw(st.booleans()),
        device_tflops=draw(st.floats(1e-6, 1e-3)),
    )


def _role(workload: SyntheticWorkload, model: Transformer, node: WorkNode) -> GroupRole:
    """By the ranks of the group alone, not by the numbers the generator gave."""
    assert node.kind is not None
    if not node.kind.is_collective:
        return GroupRole.PIPELINE
    if node.group == WORLD_GROUP:
        return GroupRole.WORLD
    members = [model.layout.coordinates(rank) for rank in workload.groups[node.group]]
    differing = [axis for axis in ("tensor", "data", "pipeline") if len({getattr(at, axis) for at in members}) > 1]
    return {"tensor": GroupRole.TENSOR, "data": GroupRole.DATA, "pipeline": GroupRole.EMBEDDING}["".join(differing)]


def _all_nodes(workload: SyntheticWorkload) -> Iterator[WorkNode]:
    for rank in range(workload.ranks):
        yield from workload.nodes(rank)


@given(transformers())
@settings(max_examples=examples(60), deadline=None)
def test_nodes_are_what_the_closed_form_says(model: Transformer) -> None:
    workload = transformer_workload(model)
    counted: Counter[tuple[GroupRole, CommKind, int]] = Counter()
    compute_nodes = compute_micros = 0
    for node in _all_nodes(workload):
        if node.kind is None:
            compute_nodes += 1
            compute_micros += node.duration_micros
        else:
            counted[_role(workload, model, node), node.kind, node.size_bytes] += 1
    expected: Counter[tuple[GroupRole, CommKind, int]] = Counter()
    for entry in workload.totals.traffic:
        expected[entry.role, entry.kind, entry.size_bytes] += entry.nodes
    totals = workload.totals
    assert counted == expected
    assert (compute_nodes, compute_micros) == (totals.compute_nodes, totals.compute_micros)
    assert totals.nodes == compute_nodes + counted.total()


@given(transformers())
@settings(max_examples=examples(40), deadline=None)
def test_every_rank_can_play_to_the_end(model: Transformer) -> None:
    assert stuck_nodes(transformer_workload(model)) == []


@given(transformers())
@settings(max_examples=examples(40), deadline=None)
def test_ids_count_up_and_dependencies_point_back(model: Transformer) -> None:
    workload = transformer_workload(model)
    for rank in range(workload.ranks):
        nodes = list(workload.nodes(rank))
        assert [node.node_id for node in nodes] == list(range(1, len(nodes) + 1))
        for node in nodes:
            assert all(0 < dep < node.node_id for dep in node.deps)
            assert rank in workload.groups.get(node.group, range(workload.ranks))


@given(transformers())
@settings(max_examples=examples(40), deadline=None)
def test_the_device_works_on_one_node_after_the_other(model: Transformer) -> None:
    workload = transformer_workload(model)
    for rank in range(workload.ranks):
        compute = [node for node in workload.nodes(rank) if node.kind is None]
        assert all(earlier.node_id in later.deps for earlier, later in pairwise(compute))
        assert compute[-1].name == "optimizer"
