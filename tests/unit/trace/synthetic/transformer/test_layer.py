"""A layer: what tensor-parallel and expert-parallel ranks exchange, and when."""

from __future__ import annotations

from dataclasses import replace

from emulator.trace.meaning.model import CommKind
from tests.support.transformer_nodes import ACTIVATION, FIRST, MODEL, nodes_by_name, sizes, waits_for


def test_a_layer_all_reduces_twice_forward_and_twice_backward() -> None:
    nodes = nodes_by_name(MODEL, FIRST)
    for direction in ("forward", "backward"):
        reduces = [
            node for name, node in nodes.items() if f"{direction}.0.layer1" in name and node.kind is CommKind.ALL_REDUCE
        ]
        assert [node.size_bytes for node in reduces] == [1 << 20, 1 << 20]
        assert {node.group for node in reduces} == {1}


def test_the_mlp_waits_for_the_all_reduce_of_attention() -> None:
    assert waits_for(nodes_by_name(MODEL, FIRST), "forward.0.layer0.mlp") == {
        "forward.0.layer0.attention",
        "forward.0.layer0.attention.all_reduce",
    }


def test_backward_takes_twice_as_long_as_forward() -> None:
    nodes = nodes_by_name(MODEL, FIRST)
    for half in ("attention", "mlp"):
        forward, backward = (nodes[f"{way}.0.layer0.{half}"].duration_micros for way in ("forward", "backward"))
        assert backward == 2 * forward


def test_recomputation_repeats_the_forward_pass_before_the_backward_pass() -> None:
    nodes = nodes_by_name(replace(MODEL, recompute=True), FIRST)
    assert "backward.0.layer1.again.mlp.all_reduce" in waits_for(nodes, "backward.0.layer1.mlp")
    assert len([name for name in nodes if name.startswith("backward.0.layer1") and "all_reduce" in name]) == 4


def test_sequence_parallelism_splits_what_an_all_reduce_does() -> None:
    """Two pairs forward; backward the gradients, and the input again for those of the weights."""
    nodes, half = nodes_by_name(replace(MODEL, sequence_parallel=True), FIRST), ACTIVATION // 2
    scatter, gather = CommKind.REDUCE_SCATTER, CommKind.ALL_GATHER
    layer = "forward.0.layer1."
    assert sizes(nodes, layer, gather) == [("attention.input.all_gather", half), ("mlp.input.all_gather", half)]
    assert [size for _, size in sizes(nodes, layer, scatter)] == [ACTIVATION] * 2
    assert waits_for(nodes, f"{layer}mlp.input.all_gather") == {f"{layer}attention.reduce_scatter"}
    layer = "backward.0.layer1."
    assert [name for name, _ in sizes(nodes, layer, gather)] == [
        *("mlp.gradient.all_gather", "mlp.input.all_gather"),
        *("attention.gradient.all_gather", "attention.input.all_gather"),
    ]
    assert [name for name, _ in sizes(nodes, layer, scatter)] == ["mlp.reduce_scatter", "attention.reduce_scatter"]
    assert nodes["forward.0.send"].size_bytes == half
    assert nodes["gradients.replicated.all_reduce"].size_bytes == 2 * 6 * 512 * 2
    assert "gradients.replicated.all_reduce" in waits_for(nodes, "gradient_norm.all_reduce")
    assert not [name for name, node in nodes.items() if ".layer" in name and node.kind is CommKind.ALL_REDUCE
                and node.group == 1]  # fmt: skip


EXPERTS = replace(MODEL, experts=4, top_k=2, expert=2, pipeline=1, sequence_parallel=True)


def test_experts_get_the_tokens_of_all_ranks_that_share_them() -> None:
    nodes, name = nodes_by_name(EXPERTS, 0), "forward.0.layer0."
    sent = 2 * ACTIVATION // 2  # two experts a token, of half the tokens
    assert sizes(nodes, name, CommKind.ALL_TO_ALL) == [("dispatch.all_to_all", sent), ("combine.all_to_all", sent)]
    assert nodes[f"{name}dispatch.all_gather"].size_bytes == sent
    assert nodes[f"{name}combine.reduce_scatter"].size_bytes == 2 * sent
    assert waits_for(nodes, f"{name}mlp") == {f"{name}dispatch.all_gather", f"{name}router"}
    backward = sizes(nodes, "backward.0.layer0.", CommKind.ALL_TO_ALL)
    assert [what for what, _ in backward] == ["dispatch.all_to_all", "combine.all_to_all"]
