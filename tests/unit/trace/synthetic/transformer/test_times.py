"""What a transformer computes against published numbers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from emulator.errors import PlanError
from emulator.trace.synthetic.transformer.stage import transformer_nodes
from emulator.trace.synthetic.transformer.times import (
    compute_times,
    optimizer_micros,
)
from emulator.trace.synthetic.transformer.transformer import ContextExchange, Transformer

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
