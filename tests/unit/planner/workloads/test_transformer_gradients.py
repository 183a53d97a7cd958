"""Gradients and the optimizer step."""

from __future__ import annotations

from dataclasses import replace

from emulator.planner.workloads.pipeline_schedule import PipelineSchedule
from emulator.trace.model import CommKind
from tests.support.transformer_nodes import FIRST, LAST, MODEL, nodes_by_name, waits_for

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
