"""What a transformer computes against published numbers."""

from dataclasses import replace

import pytest

from emulator.annexes.workloads.transformer import ContextExchange, Transformer
from emulator.annexes.workloads.transformer_layer import (
    compute_times,
    optimizer_micros,
)
from emulator.annexes.workloads.transformer_workload import transformer_nodes
from emulator.errors import PlanError
from emulator.trace.meaning.model import CommKind
from tests.support.transformer_nodes import ACTIVATION, FIRST, MODEL, nodes_by_name, sizes, waits_for

GPT3 = Transformer(layers=96, hidden=12288, sequence=2048, batch=1536, vocabulary=51200)
SMALL = Transformer(layers=4, hidden=512, sequence=1024, batch=8, micro_batches=4, vocabulary=4096)

# Narayanan et al., SC'21, table 1: billions of parameters, hidden size, layers (V = 51,200, s = 2,048).
PUBLISHED_BILLIONS = [
    (1.7, 2304, 24),
    (3.6, 3072, 30),
    (7.5, 4096, 36),
    (18.4, 6144, 40),
    (39.1, 8192, 48),
    (76.1, 10240, 60),
    (145.6, 12288, 80),
    (310.1, 16384, 96),
    (529.6, 20480, 105),
    (1008.0, 25600, 128),
]


@pytest.mark.parametrize(("billions", "hidden", "layers"), PUBLISHED_BILLIONS)
def test_parameter_count_is_that_of_the_published_table(billions: float, hidden: int, layers: int) -> None:
    model = replace(GPT3, hidden=hidden, layers=layers)
    assert model.stage_parameters(0) / 1e9 == pytest.approx(billions, abs=0.0501)


def _published_flops(model: Transformer) -> float:
    """Narayanan et al., SC'21, equation 3, with the MLPs that a token uses and the choice of its experts."""
    b, s, layers, h, v = model.batch, model.sequence, model.layers, model.hidden, model.vocabulary
    passes = 96 if model.recompute else 72
    experts = (16 * h * (model.top_k - 1) + 2 * model.experts) / (24 * h) if model.experts > 1 else 0
    return passes * b * s * layers * h**2 * (1 + experts + s / (6 * h)) + 6 * b * s * h * v


def _flops_of_nodes(model: Transformer) -> float:
    """Operations that the durations of the nodes stand for, except of those that are bound by memory."""
    micros = sum(
        node.duration_micros
        for rank in range(model.layout.ranks)
        for node in transformer_nodes(model, rank)
        if node.name != "optimizer" and not node.name.endswith("embedding")
    )
    return micros * model.device_tflops * 1e6


@pytest.mark.parametrize("degrees", [(1, 1, 1), (2, 2, 2), (4, 1, 2), (1, 4, 1)])
@pytest.mark.parametrize("recompute", [False, True])
def test_compute_nodes_do_the_published_work(degrees: tuple[int, int, int], recompute: bool) -> None:
    tensor, pipeline, data = degrees
    model = replace(
        SMALL, tensor=tensor, pipeline=pipeline, data=data, recompute=recompute, device_tflops=0.01
    )  # slow, so that rounding to microseconds does not show
    assert _flops_of_nodes(model) == pytest.approx(_published_flops(model), rel=1e-5)


@pytest.mark.parametrize(
    "change",
    [
        {"context": 4},
        {"context": 4, "context_exchange": ContextExchange.ALL_GATHER},
        {"experts": 6, "top_k": 2, "expert": 2, "data": 2},
        {"tensor": 2, "sequence_parallel": True, "experts": 4, "top_k": 3},
        {"pipeline": 2, "virtual_stages": 2},
    ],
)
def test_every_kind_of_parallelism_does_the_same_work(change: dict[str, object]) -> None:
    model = replace(SMALL, device_tflops=0.001, **change)  # type: ignore[arg-type]
    assert _flops_of_nodes(model) == pytest.approx(_published_flops(model), rel=1e-5)


def test_compute_is_divided_by_the_tensor_ranks() -> None:
    whole, half = compute_times(GPT3), compute_times(replace(GPT3, tensor=2))
    assert half.mlp == pytest.approx(whole.mlp / 2, abs=1)
    assert half.attention == pytest.approx(whole.attention / 2, abs=1)


def test_optimizer_step_reads_and_writes_its_share_of_the_state() -> None:
    model = replace(SMALL, data=4, micro_batches=2, device_gbytes_per_s=1.0)
    held = model.stage_parameters(0)
    assert optimizer_micros(model, 0) == pytest.approx(held * 28 / 1e3, abs=1)
    assert optimizer_micros(replace(model, shard_optimizer=True), 0) == pytest.approx(held * 7 / 1e3, abs=1)


@pytest.mark.parametrize("change", [{"device_tflops": 1e-300}, {"device_gbytes_per_s": 1e-300}])
def test_times_beyond_the_limit_of_a_trace_are_refused(change: dict[str, float]) -> None:
    with pytest.raises(PlanError, match="would compute for"):
        compute_times(replace(SMALL, **change))  # type: ignore[arg-type]


RING = replace(MODEL, context=4, tensor=1, pipeline=1)
"""A rank has 256 tokens."""


def test_in_a_ring_scores_are_computed_while_the_next_keys_and_values_come() -> None:
    nodes, name = nodes_by_name(RING, 1), "forward.0.layer0.attention"
    sends = sizes(nodes, name, CommKind.SEND)
    assert sends == [(f".values.{step}.send", 2 * ACTIVATION // 4) for step in range(3)]
    assert {nodes[f"{name}.values.1.{kind}"].peer for kind in ("send", "recv")} == {2, 0}
    assert waits_for(nodes, f"{name}.values.0.send") == {f"{name}.queries"}
    assert waits_for(nodes, f"{name}.scores.0") == {f"{name}.queries"}
    assert waits_for(nodes, f"{name}.values.1.send") == {f"{name}.values.0.recv"}
    assert waits_for(nodes, f"{name}.scores.2") == {f"{name}.values.1.recv", f"{name}.scores.1"}
    assert waits_for(nodes, f"{name}.projection") == {f"{name}.scores.3"}


def test_backward_the_gradients_of_keys_and_values_go_round_after_them() -> None:
    nodes, name = nodes_by_name(RING, 1), "backward.0.layer0.attention"
    sends = [what for what, _ in sizes(nodes, name, CommKind.SEND)]
    assert sorted(sends) == sorted(f".{what}.{step}.send" for what in ("values", "gradients") for step in range(3))
    assert waits_for(nodes, f"{name}.gradients.1.send") == {f"{name}.scores.1", f"{name}.gradients.0.recv"}
    assert waits_for(nodes, f"{name}.queries") == {f"{name}.scores.3", f"{name}.gradients.2.recv"}


def test_context_ranks_can_gather_keys_and_values() -> None:
    nodes = nodes_by_name(replace(RING, context_exchange=ContextExchange.ALL_GATHER), 1)
    for direction in ("forward", "backward"):
        gather = nodes[f"{direction}.0.layer0.attention.values.all_gather"]
        assert gather.size_bytes == 2 * ACTIVATION // 4
    scatter = nodes["backward.0.layer0.attention.gradients.reduce_scatter"]
    assert scatter.size_bytes == 2 * ACTIVATION
    assert gather.group == scatter.group


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
