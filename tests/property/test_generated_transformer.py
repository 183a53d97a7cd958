"""Any transformer: its nodes are what the closed form says, are ordered, and can be played to the end."""

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise, product
from math import prod

from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.annexes.workloads.totals import GroupRole, SyntheticWorkload
from emulator.annexes.workloads.transformer import ContextExchange, PipelineSchedule, Transformer
from emulator.annexes.workloads.transformer_traffic import traffic_of_transformer
from emulator.annexes.workloads.transformer_workload import transformer_workload
from emulator.trace.meaning.model import CommKind
from emulator.trace.synthetic.synthetic import WorkNode
from tests.support.full import examples
from tests.support.virtual_world import stuck_nodes

MOST_RANKS = 12
DEGREES = [degrees for degrees in product((1, 2, 3), repeat=4) if prod(degrees) <= MOST_RANKS]


@st.composite
def transformers(draw: st.DrawFn) -> Transformer:
    small = st.integers(1, 3)
    tensor, pipeline, data, context = draw(st.sampled_from(DEGREES))
    virtual_stages = draw(small) if pipeline > 1 else 1
    micro_batches = draw(st.integers(1, 2)) * pipeline if virtual_stages > 1 else draw(st.integers(1, 5))
    expert = draw(st.sampled_from([degree for degree in range(1, 10) if data * context % degree == 0]))
    experts = expert * draw(small)
    return Transformer(
        layers=pipeline * virtual_stages * draw(st.integers(1, 2)),
        hidden=tensor * draw(st.integers(1, 50)),
        sequence=context * tensor * draw(st.integers(1, 20)),
        batch=data * micro_batches * draw(small),
        micro_batches=micro_batches,
        vocabulary=tensor * draw(st.integers(1, 1000)),
        ffn_multiplier=draw(small),
        dtype_bytes=draw(st.sampled_from([1, 2, 4])),
        experts=experts,
        top_k=draw(st.integers(1, experts)),
        tensor=tensor,
        context=context,
        pipeline=pipeline,
        data=data,
        expert=expert,
        sequence_parallel=experts > 1 or draw(st.booleans()),
        context_exchange=draw(st.sampled_from(ContextExchange)),
        schedule=PipelineSchedule.ONE_F_ONE_B if virtual_stages > 1 else draw(st.sampled_from(PipelineSchedule)),
        virtual_stages=virtual_stages,
        recompute=draw(st.booleans()),
        shard_optimizer=draw(st.booleans()),
        device_tflops=draw(st.floats(1e-6, 1e-3)),
    )


def _role(model: Transformer, rank: int, node: WorkNode) -> GroupRole:
    if node.kind.is_collective:
        return model.layout.role(node.group)
    is_in_stage = model.layout.coordinates(rank).pipeline == model.layout.coordinates(node.peer).pipeline
    return GroupRole.CONTEXT if is_in_stage else GroupRole.PIPELINE


def _all_nodes(workload: SyntheticWorkload) -> Iterator[tuple[int, WorkNode]]:
    for rank in range(workload.ranks):
        yield from ((rank, node) for node in workload.nodes(rank))


@given(transformers())
@settings(max_examples=examples(24), deadline=None)
def test_totals_from_a_rank_of_each_stage_are_those_of_all_nodes(model: Transformer) -> None:
    workload = transformer_workload(model)
    counted: Counter[tuple[GroupRole, CommKind, int]] = Counter()
    compute_nodes = compute_micros = 0
    for rank, node in _all_nodes(workload):
        if node.kind is None:
            compute_nodes += 1
            compute_micros += node.duration_micros
        else:
            counted[_role(model, rank, node), node.kind, node.size_bytes] += 1
    expected: Counter[tuple[GroupRole, CommKind, int]] = Counter()
    for entry in workload.totals.traffic:
        expected[entry.role, entry.kind, entry.size_bytes] += entry.nodes
    totals = workload.totals
    assert counted == expected
    assert (compute_nodes, compute_micros) == (totals.compute_nodes, totals.compute_micros)
    assert totals.nodes == compute_nodes + counted.total()


@given(transformers())
@settings(max_examples=examples(24), deadline=None)
def test_a_plan_from_the_description_has_the_traffic_of_the_nodes(model: Transformer) -> None:
    """One rank of each stage stands for all of them: the same operations between the same ranks, as often."""
    workload = transformer_workload(model)
    expected: Counter[tuple[CommKind, int, tuple[int, ...]]] = Counter()
    for rank, node in _all_nodes(workload):
        if node.kind is CommKind.SEND:
            expected[node.kind, node.size_bytes, (rank, node.peer)] += 1
        elif node.kind is not None and node.kind.is_collective:
            ranks = workload.groups.get(node.group, tuple(range(workload.ranks)))
            expected[node.kind, node.size_bytes, ranks] += rank == ranks[0]
    planned: Counter[tuple[CommKind, int, tuple[int, ...]]] = Counter()
    traffic = traffic_of_transformer(model, overrides={})
    for one in traffic.operations:
        for group, count in zip(one.ranks.tolist(), one.counts.tolist(), strict=True):
            planned[one.kind, one.size_bytes, tuple(group)] += count
    assert planned == expected
    of_stage = model.layout.ranks // model.pipeline
    assert of_stage * sum(traffic.compute_ns) == 1000 * workload.totals.compute_micros


@given(transformers())
@settings(max_examples=examples(12), deadline=None)
def test_every_rank_can_play_to_the_end(model: Transformer) -> None:
    assert stuck_nodes(transformer_workload(model)) == []


@given(transformers())
@settings(max_examples=examples(24), deadline=None)
def test_ids_count_up_and_dependencies_point_back(model: Transformer) -> None:
    workload = transformer_workload(model)
    for rank in range(workload.ranks):
        nodes = list(workload.nodes(rank))
        assert [node.node_id for node in nodes] == list(range(1, len(nodes) + 1))
        for node in nodes:
            assert all(0 < dep < node.node_id for dep in node.deps)
            assert rank in workload.groups.get(node.group, range(workload.ranks))


@given(transformers())
@settings(max_examples=examples(24), deadline=None)
def test_the_device_works_on_one_node_after_the_other(model: Transformer) -> None:
    workload = transformer_workload(model)
    for rank in range(workload.ranks):
        compute = [node for node in workload.nodes(rank) if node.kind is None]
        assert all(earlier.node_id in later.deps for earlier, later in pairwise(compute))
        assert compute[-1].name == "optimizer"
