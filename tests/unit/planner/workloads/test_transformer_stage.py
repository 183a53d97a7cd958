"""Dependencies between the nodes of a rank."""

from __future__ import annotations

from dataclasses import replace

from emulator.planner.workloads.pipeline_schedule import PipelineSchedule
from emulator.planner.workloads.synthetic import WorkNode
from emulator.planner.workloads.transformer import ContextExchange, Transformer
from emulator.planner.workloads.transformer_stage import transformer_nodes
from emulator.trace.model import CommKind

MODEL = Transformer(
    layers=4,
    hidden=512,
    sequence=1024,
    batch=8,
    micro_batches=4,
    vocabulary=4096,
    tensor=2,
    pipeline=2,
    data=2,
)
FIRST, LAST = 0, 4


def _nodes(model: Transformer, rank: int) -> dict[str, WorkNode]:
    nodes = list(transformer_nodes(model, rank))
    named = {node.name: node for node in nodes}
    assert len(named) == len(nodes)
    return named


def _waits_for(nodes: dict[str, WorkNode], name: str) -> set[str]:
    names = {node.node_id: other for other, node in nodes.items()}
    return {names[dep] for dep in nodes[name].deps}


def test_a_layer_all_reduces_twice_forward_and_twice_backward() -> None:
    nodes = _nodes(MODEL, FIRST)
    for direction in ("forward", "backward"):
        reduces = [
            node for name, node in nodes.items() if f"{direction}.0.layer1" in name and node.kind is CommKind.ALL_REDUCE
        ]
        assert [node.size_bytes for node in reduces] == [1 << 20, 1 << 20]
        assert {node.group for node in reduces} == {1}


def test_the_mlp_waits_for_the_all_reduce_of_attention() -> None:
    assert _waits_for(_nodes(MODEL, FIRST), "forward.0.layer0.mlp") == {
        "forward.0.layer0.attention",
        "forward.0.layer0.attention.all_reduce",
    }


def test_backward_takes_twice_as_long_as_forward() -> None:
    nodes = _nodes(MODEL, FIRST)
    for half in ("attention", "mlp"):
        forward, backward = (nodes[f"{way}.0.layer0.{half}"].duration_micros for way in ("forward", "backward"))
        assert backward == 2 * forward


def test_stages_send_activations_forward_and_gradients_backward() -> None:
    first, last = _nodes(MODEL, FIRST), _nodes(MODEL, LAST)
    for k in range(MODEL.micro_batches):
        send, receive = first[f"forward.{k}.send"], last[f"forward.{k}.recv"]
        assert (send.kind, send.peer, receive.kind, receive.peer) == (CommKind.SEND, LAST, CommKind.RECV, FIRST)
        assert (send.tag, send.size_bytes) == (receive.tag, receive.size_bytes) == (k, 1 << 20)
        send, receive = last[f"backward.{k}.send"], first[f"backward.{k}.recv"]
        assert (send.kind, send.peer, receive.kind, receive.peer) == (CommKind.SEND, FIRST, CommKind.RECV, LAST)
        assert (send.tag, send.size_bytes) == (receive.tag, receive.size_bytes) == (k, 1 << 20)


def test_the_gradient_is_computed_from_what_was_received() -> None:
    assert "backward.2.recv" in _waits_for(_nodes(MODEL, FIRST), "backward.2.layer1.mlp")
    assert "forward.2.recv" in _waits_for(_nodes(MODEL, LAST), "forward.2.layer2.attention")


def test_gradients_are_reduced_while_the_last_backward_pass_continues() -> None:
    nodes = _nodes(MODEL, FIRST)
    assert _waits_for(nodes, "gradients.layer1.all_reduce") == {"backward.3.layer1.attention"}
    assert "gradients.layer1.all_reduce" not in _waits_for(nodes, "backward.3.layer0.mlp")
    assert nodes["gradients.layer1.all_reduce"].size_bytes == MODEL.layer_parameters * 2
    assert [name for name in nodes if name.startswith("gradients")] == [
        "gradients.layer1.all_reduce",
        "gradients.layer0.all_reduce",
        "gradients.embedding.all_reduce",
    ]


def test_gpipe_reduces_gradients_in_its_last_backward_pass() -> None:
    nodes = _nodes(replace(MODEL, schedule=PipelineSchedule.GPIPE), FIRST)
    assert _waits_for(nodes, "gradients.layer1.all_reduce") == {"backward.0.layer1.attention"}


def test_first_and_last_stage_share_the_embedding_once_the_pipeline_is_flushed() -> None:
    for rank, flushed in ((FIRST, "backward.3.embedding"), (LAST, "backward.3.send")):
        nodes = _nodes(MODEL, rank)
        assert flushed in _waits_for(nodes, "embedding.all_reduce")
        assert nodes["embedding.all_reduce"].size_bytes == 4096 * 512 // 2 * 2
        assert "embedding.all_reduce" in _waits_for(nodes, "gradient_norm.all_reduce")


def test_the_middle_of_a_pipeline_has_no_embedding() -> None:
    middle = _nodes(replace(MODEL, pipeline=4), 4)
    assert not [name for name in middle if "embedding" in name or "head" in name]


def test_the_optimizer_waits_for_the_norm_which_waits_for_every_gradient() -> None:
    nodes = _nodes(MODEL, LAST)
    assert "gradient_norm.all_reduce" in _waits_for(nodes, "optimizer")
    assert _waits_for(nodes, "gradient_norm.all_reduce") >= {name for name in nodes if name.startswith("gradients")}


def test_a_sharded_optimizer_scatters_gradients_and_gathers_parameters() -> None:
    nodes = _nodes(replace(MODEL, shard_optimizer=True), FIRST)
    scatter, gather = nodes["gradients.layer0.reduce_scatter"], nodes["parameters.layer0.all_gather"]
    assert (scatter.kind, gather.kind) == (CommKind.REDUCE_SCATTER, CommKind.ALL_GATHER)
    assert scatter.size_bytes == 2 * gather.size_bytes == MODEL.layer_parameters * 2
    assert _waits_for(nodes, "parameters.layer0.all_gather") == {"optimizer"}
    assert "gradients.layer0.all_reduce" not in nodes


def test_recomputation_repeats_the_forward_pass_before_the_backward_pass() -> None:
    nodes = _nodes(replace(MODEL, recompute=True), FIRST)
    assert "backward.0.layer1.again.mlp.all_reduce" in _waits_for(nodes, "backward.0.layer1.mlp")
    assert len([name for name in nodes if name.startswith("backward.0.layer1") and "all_reduce" in name]) == 4


def test_the_last_stage_starts_backward_when_the_loss_is_reduced() -> None:
    nodes = _nodes(replace(MODEL, schedule=PipelineSchedule.GPIPE), LAST)
    assert "forward.2.head.sum.all_reduce" in _waits_for(nodes, "backward.2.head")
    assert [nodes[f"forward.2.head.{what}.all_reduce"].size_bytes for what in ("maximum", "target", "sum")] == [
        4096
    ] * 3


def test_parameters_are_gathered_in_the_order_the_next_iteration_needs_them() -> None:
    nodes = _nodes(replace(MODEL, shard_optimizer=True), FIRST)
    assert [name.split(".")[1] for name in nodes if name.startswith("parameters")] == ["embedding", "layer0", "layer1"]


def test_a_single_rank_only_computes() -> None:
    nodes = _nodes(replace(MODEL, tensor=1, pipeline=1, data=1), 0)
    assert all(node.kind is None for node in nodes.values())


ACTIVATION = 1 << 20
"""Bytes of a micro-batch of MODEL: 1,024 tokens of 512 values of two bytes."""


def _sizes(nodes: dict[str, WorkNode], start: str, kind: CommKind) -> list[tuple[str, int]]:
    named = [(name.removeprefix(start), node) for name, node in nodes.items() if name.startswith(start)]
    return [(name, node.size_bytes) for name, node in named if node.kind is kind]


def test_sequence_parallelism_splits_what_an_all_reduce_does() -> None:
    """Two pairs forward; backward the gradients, and the input again for those of the weights."""
    nodes, half = _nodes(replace(MODEL, sequence_parallel=True), FIRST), ACTIVATION // 2
    scatter, gather = CommKind.REDUCE_SCATTER, CommKind.ALL_GATHER
    layer = "forward.0.layer1."
    assert _sizes(nodes, layer, gather) == [("attention.input.all_gather", half), ("mlp.input.all_gather", half)]
    assert [size for _, size in _sizes(nodes, layer, scatter)] == [ACTIVATION] * 2
    assert _waits_for(nodes, f"{layer}mlp.input.all_gather") == {f"{layer}attention.reduce_scatter"}
    layer = "backward.0.layer1."
    assert [name for name, _ in _sizes(nodes, layer, gather)] == [
        *("mlp.gradient.all_gather", "mlp.input.all_gather"),
        *("attention.gradient.all_gather", "attention.input.all_gather"),
    ]
    assert [name for name, _ in _sizes(nodes, layer, scatter)] == ["mlp.reduce_scatter", "attention.reduce_scatter"]
    assert nodes["forward.0.send"].size_bytes == half
    assert nodes["gradients.replicated.all_reduce"].size_bytes == 2 * 6 * 512 * 2
    assert "gradients.replicated.all_reduce" in _waits_for(nodes, "gradient_norm.all_reduce")
    assert not [name for name, node in nodes.items() if ".layer" in name and node.kind is CommKind.ALL_REDUCE
                and node.group == 1]  # fmt: skip


RING = replace(MODEL, context=4, tensor=1, pipeline=1)
"""A rank has 256 tokens."""


def test_in_a_ring_scores_are_computed_while_the_next_keys_and_values_come() -> None:
    nodes, name = _nodes(RING, 1), "forward.0.layer0.attention"
    sends = _sizes(nodes, name, CommKind.SEND)
    assert sends == [(f".values.{step}.send", 2 * ACTIVATION // 4) for step in range(3)]
    assert {nodes[f"{name}.values.1.{kind}"].peer for kind in ("send", "recv")} == {2, 0}
    assert _waits_for(nodes, f"{name}.values.0.send") == {f"{name}.queries"}
    assert _waits_for(nodes, f"{name}.scores.0") == {f"{name}.queries"}
    assert _waits_for(nodes, f"{name}.values.1.send") == {f"{name}.values.0.recv"}
    assert _waits_for(nodes, f"{name}.scores.2") == {f"{name}.values.1.recv", f"{name}.scores.1"}
    assert _waits_for(nodes, f"{name}.projection") == {f"{name}.scores.3"}


def test_backward_the_gradients_of_keys_and_values_go_round_after_them() -> None:
    nodes, name = _nodes(RING, 1), "backward.0.layer0.attention"
    sends = [what for what, _ in _sizes(nodes, name, CommKind.SEND)]
    assert sorted(sends) == sorted(f".{what}.{step}.send" for what in ("values", "gradients") for step in range(3))
    assert _waits_for(nodes, f"{name}.gradients.1.send") == {f"{name}.scores.1", f"{name}.gradients.0.recv"}
    assert _waits_for(nodes, f"{name}.queries") == {f"{name}.scores.3", f"{name}.gradients.2.recv"}


def test_context_ranks_can_gather_keys_and_values() -> None:
    nodes = _nodes(replace(RING, context_exchange=ContextExchange.ALL_GATHER), 1)
    for direction in ("forward", "backward"):
        gather = nodes[f"{direction}.0.layer0.attention.values.all_gather"]
        assert gather.size_bytes == 2 * ACTIVATION // 4
    scatter = nodes["backward.0.layer0.attention.gradients.reduce_scatter"]
    assert scatter.size_bytes == 2 * ACTIVATION
    assert gather.group == scatter.group


EXPERTS = replace(MODEL, experts=4, top_k=2, expert=2, pipeline=1, sequence_parallel=True)


def test_experts_get_the_tokens_of_all_ranks_that_share_them() -> None:
    nodes, name = _nodes(EXPERTS, 0), "forward.0.layer0."
    sent = 2 * ACTIVATION // 2  # two experts a token, of half the tokens
    assert _sizes(nodes, name, CommKind.ALL_TO_ALL) == [("dispatch.all_to_all", sent), ("combine.all_to_all", sent)]
    assert nodes[f"{name}dispatch.all_gather"].size_bytes == sent
    assert nodes[f"{name}combine.reduce_scatter"].size_bytes == 2 * sent
    assert _waits_for(nodes, f"{name}mlp") == {f"{name}dispatch.all_gather", f"{name}router"}
    backward = _sizes(nodes, "backward.0.layer0.", CommKind.ALL_TO_ALL)
    assert [what for what, _ in backward] == ["dispatch.all_to_all", "combine.all_to_all"]


def test_gradients_of_experts_are_reduced_where_others_hold_them() -> None:
    assert "gradients.layer0.experts.all_reduce" not in _nodes(EXPERTS, 0)
    wide = replace(EXPERTS, data=4, micro_batches=2)
    nodes, groups = _nodes(wide, 0), wide.layout.groups()
    assert groups[nodes["gradients.layer0.experts.all_reduce"].group] == (0, 4)
    assert groups[nodes["gradients.layer0.all_reduce"].group] == (0, 2, 4, 6)
    assert nodes["gradients.layer0.experts.all_reduce"].size_bytes == 2 * wide.expert_parameters


def test_virtual_stages_are_dealt_out_in_turn_and_send_round() -> None:
    model = replace(MODEL, virtual_stages=2)
    first, last = _nodes(model, FIRST), _nodes(model, LAST)
    layers = {name.split(".")[2] for name in first if name.startswith("forward.0.layer")}
    assert layers == {"layer0", "layer2"}
    wrap, back = last["forward.3.chunk0.send"], first["forward.3.chunk1.recv"]
    assert (wrap.peer, back.peer, wrap.tag) == (FIRST, LAST, back.tag)
    gradients = {node.tag for node in last.values() if node.kind is CommKind.SEND and node.name.startswith("backward")}
    assert wrap.tag not in gradients
    assert len([name for name in first if name.startswith("gradients.layer")]) == 2
