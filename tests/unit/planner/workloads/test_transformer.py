"""Sizes and times of a transformer against published numbers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from emulator.errors import PlanError
from emulator.planner.workloads.pipeline_schedule import PipelineSchedule
from emulator.planner.workloads.transformer import ContextExchange, Transformer
from emulator.planner.workloads.transformer_stage import transformer_nodes
from emulator.planner.workloads.transformer_times import (
    compute_times,
    iteration_flops,
    optimizer_micros,
    parameter_count,
)

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
    assert parameter_count(model) / 1e9 == pytest.approx(billions, abs=0.0501)


@pytest.mark.parametrize(("recompute", "factor"), [(False, 72), (True, 96)])
def test_flops_are_those_of_the_published_formula(recompute: bool, factor: int) -> None:
    model = replace(GPT3, recompute=recompute)
    b, s, layers, h, v = model.batch, model.sequence, model.layers, model.hidden, model.vocabulary
    published = factor * b * s * layers * h**2 * (1 + s / (6 * h)) + 6 * b * s * h * v
    assert iteration_flops(model) == pytest.approx(published, rel=1e-12)


@pytest.mark.parametrize("degrees", [(1, 1, 1), (2, 2, 2), (4, 1, 2), (1, 4, 1)])
@pytest.mark.parametrize("recompute", [False, True])
def test_compute_nodes_do_the_published_work(degrees: tuple[int, int, int], recompute: bool) -> None:
    tensor, pipeline, data = degrees
    model = replace(
        SMALL, tensor=tensor, pipeline=pipeline, data=data, recompute=recompute, device_tflops=0.01
    )  # slow, so that rounding to microseconds does not show
    micros = sum(
        node.duration_micros
        for rank in range(model.layout.ranks)
        for node in transformer_nodes(model, rank)
        if node.name != "optimizer" and not node.name.endswith("embedding")
    )
    assert micros * model.device_tflops * 1e6 == pytest.approx(iteration_flops(model), rel=1e-5)


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
    micros = sum(
        node.duration_micros
        for rank in range(model.layout.ranks)
        for node in transformer_nodes(model, rank)
        if node.name != "optimizer" and not node.name.endswith("embedding")
    )
    assert micros * model.device_tflops * 1e6 == pytest.approx(iteration_flops(model), rel=1e-5)


def test_experts_are_held_once_and_the_rest_by_every_replica() -> None:
    model = replace(SMALL, experts=6, expert=2, data=2)
    held = sum(model.stage_parameters(stage) for stage in range(model.pipeline))
    assert held + 2 * model.stage_expert_parameters == parameter_count(model)
    assert replace(SMALL, experts=1).expert_parameters == 0


def test_compute_is_divided_by_the_tensor_ranks() -> None:
    whole, half = compute_times(GPT3), compute_times(replace(GPT3, tensor=2))
    assert half.mlp == pytest.approx(whole.mlp / 2, abs=1)
    assert half.attention == pytest.approx(whole.attention / 2, abs=1)


@pytest.mark.parametrize("pipeline", [1, 2, 4])
def test_stages_hold_every_parameter_once_and_the_shared_embedding_twice(pipeline: int) -> None:
    model = replace(SMALL, pipeline=pipeline)
    held = sum(model.stage_parameters(stage) for stage in range(pipeline))
    copies = model.word_embedding_parameters if pipeline > 1 else 0
    assert held == parameter_count(model) + copies


def test_tensor_ranks_share_matrices_and_replicate_norms() -> None:
    whole, half = SMALL.layer_parameters, replace(SMALL, tensor=2).layer_parameters
    assert whole == 12 * 512**2 + 13 * 512
    assert 2 * half - whole == 6 * 512


def test_activation_of_a_micro_batch() -> None:
    model = replace(SMALL, data=2)
    assert model.micro_batch_tokens == 1 * 1024
    assert model.activation_bytes == 1024 * 512 * 2
    assert model.softmax_bytes == 1024 * 4


def test_a_sharded_bucket_is_padded_to_equal_shards_of_whole_elements() -> None:
    model = replace(SMALL, data=4, micro_batches=2, shard_optimizer=True)
    assert model.bucket_bytes(9) == 12 * 2
    assert replace(model, shard_optimizer=False).bucket_bytes(9) == 9 * 2


def test_optimizer_step_reads_and_writes_its_share_of_the_state() -> None:
    model = replace(SMALL, data=4, micro_batches=2, device_gbytes_per_s=1.0)
    held = model.stage_parameters(0)
    assert optimizer_micros(model, 0) == pytest.approx(held * 28 / 1e3, abs=1)
    assert optimizer_micros(replace(model, shard_optimizer=True), 0) == pytest.approx(held * 7 / 1e3, abs=1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pipeline": 3}, "layers 4 is not divisible by pipeline 3"),
        ({"tensor": 3}, "hidden 512 is not divisible by tensor 3"),
        ({"tensor": 2, "vocabulary": 4097}, "vocabulary 4097 is not divisible by tensor 2"),
        ({"data": 4}, "batch 8 is not divisible by data x micro_batches 16"),
        ({"layers": 0}, "layers is 0: it must be greater than 0"),
        ({"batch": -8}, "batch is -8"),
        ({"device_tflops": float("nan")}, "device_tflops is nan"),
        ({"device_gbytes_per_s": float("inf")}, "device_gbytes_per_s is inf"),
        ({"hidden": 2**40}, "the limit of a trace is"),
        ({"context": 3}, "sequence 1024 is not divisible by context 3"),
        ({"context": 1024, "tensor": 2, "sequence_parallel": True}, "not divisible by context x tensor 2048"),
        ({"virtual_stages": 2}, "virtual_stages 2 needs pipeline of at least 2"),
        ({"virtual_stages": 2, "pipeline": 4}, "layers 4 is not divisible by pipeline x virtual_stages 8"),
        ({"virtual_stages": 2, "pipeline": 2, "micro_batches": 1}, "micro_batches 1 is not divisible by pipeline 2"),
        ({"virtual_stages": 2, "pipeline": 2, "schedule": PipelineSchedule.GPIPE}, "needs schedule 1f1b, not gpipe"),
        ({"experts": 4, "expert": 3}, "experts 4 is not divisible by expert 3"),
        ({"experts": 4, "expert": 2}, "data x context 1 is not divisible by expert 2"),
        ({"top_k": 2}, "top_k 2 is more than experts 1"),
        ({"experts": 4, "tensor": 2}, "need sequence_parallel"),
    ],
)
def test_numbers_that_contradict_each_other_are_refused_by_name(change: dict[str, float], message: str) -> None:
    with pytest.raises(PlanError, match=message):
        replace(SMALL, **change)  # type: ignore[arg-type]


@pytest.mark.parametrize("change", [{"device_tflops": 1e-300}, {"device_gbytes_per_s": 1e-300}])
def test_times_beyond_the_limit_of_a_trace_are_refused(change: dict[str, float]) -> None:
    with pytest.raises(PlanError, match="would compute for"):
        compute_times(replace(SMALL, **change))  # type: ignore[arg-type]


def test_described_is_flat_and_complete() -> None:
    described = replace(SMALL, recompute=True).described()
    assert described["layers"] == 4
    assert described["schedule"] == "1f1b"
    assert described["recompute"] == 1
    assert described["device_tflops"] == "200"
