"""Passes of a stage."""

from collections import Counter
from dataclasses import replace

import pytest

from emulator.annexes.workloads.options import described
from emulator.annexes.workloads.totals import GroupRole
from emulator.annexes.workloads.transformer import PipelineSchedule, Transformer
from emulator.annexes.workloads.transformer_workload import transformer_workload
from emulator.trace.meaning.model import CommKind
from tests.support.transformer_nodes import FIRST, LAST, MODEL, nodes_by_name, waits_for


def test_stages_send_activations_forward_and_gradients_backward() -> None:
    first, last = nodes_by_name(MODEL, FIRST), nodes_by_name(MODEL, LAST)
    for k in range(MODEL.micro_batches):
        send, receive = first[f"forward.{k}.send"], last[f"forward.{k}.recv"]
        assert (send.kind, send.peer, receive.kind, receive.peer) == (CommKind.SEND, LAST, CommKind.RECV, FIRST)
        assert (send.tag, send.size_bytes) == (receive.tag, receive.size_bytes) == (k, 1 << 20)
        send, receive = last[f"backward.{k}.send"], first[f"backward.{k}.recv"]
        assert (send.kind, send.peer, receive.kind, receive.peer) == (CommKind.SEND, FIRST, CommKind.RECV, LAST)
        assert (send.tag, send.size_bytes) == (receive.tag, receive.size_bytes) == (k, 1 << 20)


def test_the_gradient_is_computed_from_what_was_received() -> None:
    assert "backward.2.recv" in waits_for(nodes_by_name(MODEL, FIRST), "backward.2.layer1.mlp")
    assert "forward.2.recv" in waits_for(nodes_by_name(MODEL, LAST), "forward.2.layer2.attention")


def test_the_middle_of_a_pipeline_has_no_embedding() -> None:
    middle = nodes_by_name(replace(MODEL, pipeline=4), 4)
    assert not [name for name in middle if "embedding" in name or "head" in name]


def test_the_last_stage_starts_backward_when_the_loss_is_reduced() -> None:
    nodes = nodes_by_name(replace(MODEL, schedule=PipelineSchedule.GPIPE), LAST)
    assert "forward.2.head.sum.all_reduce" in waits_for(nodes, "backward.2.head")
    assert [nodes[f"forward.2.head.{what}.all_reduce"].size_bytes for what in ("maximum", "target", "sum")] == [
        4096
    ] * 3


def test_a_single_rank_only_computes() -> None:
    nodes = nodes_by_name(replace(MODEL, tensor=1, pipeline=1, data=1), 0)
    assert all(node.kind is None for node in nodes.values())


def test_virtual_stages_are_dealt_out_in_turn_and_send_round() -> None:
    model = replace(MODEL, virtual_stages=2)
    first, last = nodes_by_name(model, FIRST), nodes_by_name(model, LAST)
    layers = {name.split(".")[2] for name in first if name.startswith("forward.0.layer")}
    assert layers == {"layer0", "layer2"}
    wrap, back = last["forward.3.chunk0.send"], first["forward.3.chunk1.recv"]
    assert (wrap.peer, back.peer, wrap.tag) == (FIRST, LAST, back.tag)
    gradients = {node.tag for node in last.values() if node.kind is CommKind.SEND and node.name.startswith("backward")}
    assert wrap.tag not in gradients
    assert len([name for name in first if name.startswith("gradients.layer")]) == 2


EXPERTS = replace(MODEL, experts=4, top_k=2, expert=2, pipeline=1, sequence_parallel=True)


def test_gradients_are_reduced_while_the_last_backward_pass_continues() -> None:
    nodes = nodes_by_name(MODEL, FIRST)
    assert waits_for(nodes, "gradients.layer1.all_reduce") == {"backward.3.layer1.attention"}
    assert "gradients.layer1.all_reduce" not in waits_for(nodes, "backward.3.layer0.mlp")
    assert nodes["gradients.layer1.all_reduce"].size_bytes == MODEL.layer_parameters * 2
    assert [name for name in nodes if name.startswith("gradients")] == [
        "gradients.layer1.all_reduce",
        "gradients.layer0.all_reduce",
        "gradients.embedding.all_reduce",
    ]


def test_gpipe_reduces_gradients_in_its_last_backward_pass() -> None:
    nodes = nodes_by_name(replace(MODEL, schedule=PipelineSchedule.GPIPE), FIRST)
    assert waits_for(nodes, "gradients.layer1.all_reduce") == {"backward.0.layer1.attention"}


def test_first_and_last_stage_share_the_embedding_once_the_pipeline_is_flushed() -> None:
    for rank, flushed in ((FIRST, "backward.3.embedding"), (LAST, "backward.3.send")):
        nodes = nodes_by_name(MODEL, rank)
        assert flushed in waits_for(nodes, "embedding.all_reduce")
        assert nodes["embedding.all_reduce"].size_bytes == 4096 * 512 // 2 * 2
        assert "embedding.all_reduce" in waits_for(nodes, "gradient_norm.all_reduce")


def test_the_optimizer_waits_for_the_norm_which_waits_for_every_gradient() -> None:
    nodes = nodes_by_name(MODEL, LAST)
    assert "gradient_norm.all_reduce" in waits_for(nodes, "optimizer")
    assert waits_for(nodes, "gradient_norm.all_reduce") >= {name for name in nodes if name.startswith("gradients")}


def test_a_sharded_optimizer_scatters_gradients_and_gathers_parameters() -> None:
    nodes = nodes_by_name(replace(MODEL, shard_optimizer=True), FIRST)
    scatter, gather = nodes["gradients.layer0.reduce_scatter"], nodes["parameters.layer0.all_gather"]
    assert (scatter.kind, gather.kind) == (CommKind.REDUCE_SCATTER, CommKind.ALL_GATHER)
    assert scatter.size_bytes == 2 * gather.size_bytes == MODEL.layer_parameters * 2
    assert waits_for(nodes, "parameters.layer0.all_gather") == {"optimizer"}
    assert "gradients.layer0.all_reduce" not in nodes


def test_parameters_are_gathered_in_the_order_the_next_iteration_needs_them() -> None:
    nodes = nodes_by_name(replace(MODEL, shard_optimizer=True), FIRST)
    assert [name.split(".")[1] for name in nodes if name.startswith("parameters")] == ["embedding", "layer0", "layer1"]


def test_gradients_of_experts_are_reduced_where_others_hold_them() -> None:
    assert "gradients.layer0.experts.all_reduce" not in nodes_by_name(EXPERTS, 0)
    wide = replace(EXPERTS, data=4, micro_batches=2)
    nodes, groups = nodes_by_name(wide, 0), wide.layout.groups()
    assert groups[nodes["gradients.layer0.experts.all_reduce"].group] == (0, 4)
    assert groups[nodes["gradients.layer0.all_reduce"].group] == (0, 2, 4, 6)
    assert nodes["gradients.layer0.experts.all_reduce"].size_bytes == 2 * wide.expert_parameters


SMALL = Transformer(
    layers=6, hidden=8, sequence=16, batch=24, micro_batches=4, vocabulary=64, tensor=2, pipeline=3, data=2
)
l, h, s, V, f, e = SMALL.layers, SMALL.hidden, SMALL.sequence, SMALL.vocabulary, 4, 2  # noqa: E741
t, p, d, m = SMALL.tensor, SMALL.pipeline, SMALL.data, SMALL.micro_batches
b = SMALL.batch // (d * m)


def counted(model: Transformer) -> Counter[tuple[GroupRole, CommKind, int]]:
    found: Counter[tuple[GroupRole, CommKind, int]] = Counter()
    for entry in transformer_workload(model).totals.traffic:
        found[entry.role, entry.kind, entry.size_bytes] += entry.operations
    return found


def test_operations_and_sizes_are_those_of_the_page() -> None:
    layer_bytes = e * (((4 + 2 * f) * h * h + (3 + f) * h) // t + 6 * h)
    assert counted(SMALL) == {
        (GroupRole.TENSOR, CommKind.ALL_REDUCE, b * s * h * e): d * m * (4 * l + 2),
        (GroupRole.TENSOR, CommKind.ALL_REDUCE, 4 * b * s): 3 * d * m,
        (GroupRole.PIPELINE, CommKind.SEND, b * s * h * e): 2 * d * t * m * (p - 1),
        (GroupRole.PIPELINE, CommKind.RECV, b * s * h * e): 2 * d * t * m * (p - 1),
        (GroupRole.DATA, CommKind.ALL_REDUCE, layer_bytes): t * l,
        (GroupRole.DATA, CommKind.ALL_REDUCE, e * (V * h // t + s * h)): t,
        (GroupRole.DATA, CommKind.ALL_REDUCE, e * V * h // t): t,
        (GroupRole.EMBEDDING, CommKind.ALL_REDUCE, e * V * h // t): d * t,
        (GroupRole.WORLD, CommKind.ALL_REDUCE, 4): 1,
    }


def test_recomputation_adds_two_all_reduces_per_layer() -> None:
    key = (GroupRole.TENSOR, CommKind.ALL_REDUCE, b * s * h * e)
    assert counted(replace(SMALL, recompute=True))[key] == d * m * (6 * l + 2)


def test_a_sharded_optimizer_scatters_buckets_and_gathers_shards() -> None:
    found = counted(replace(SMALL, shard_optimizer=True))
    data = {key: count for key, count in found.items() if key[0] is GroupRole.DATA}
    scattered = {size: count for (_, kind, size), count in data.items() if kind is CommKind.REDUCE_SCATTER}
    gathered = {size: count for (_, kind, size), count in data.items() if kind is CommKind.ALL_GATHER}
    assert {size // d: count for size, count in scattered.items()} == gathered
    assert len(data) == len(scattered) + len(gathered)


@pytest.mark.parametrize(
    ("degrees", "roles"),
    [
        ((1, 1, 1), set()),
        ((2, 1, 1), {GroupRole.TENSOR, GroupRole.WORLD}),
        ((1, 3, 1), {GroupRole.PIPELINE, GroupRole.EMBEDDING, GroupRole.WORLD}),
        ((1, 1, 2), {GroupRole.DATA, GroupRole.WORLD}),
    ],
)
def test_only_parallel_axes_communicate(degrees: tuple[int, int, int], roles: set[GroupRole]) -> None:
    tensor, pipeline, data = degrees
    model = replace(SMALL, tensor=tensor, pipeline=pipeline, data=data)
    assert {role for role, _, _ in counted(model)} == roles


def test_the_workload_names_its_parameters() -> None:
    workload = transformer_workload(SMALL)
    assert workload.name == "transformer"
    assert workload.parameters == described(SMALL)
    assert workload.groups == SMALL.layout.groups()
