"""Sizes and times of a transformer against published numbers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from emulator.errors import PlanError
from emulator.trace.synthetic.options import described
from emulator.trace.synthetic.transformer.pipeline_schedule import PipelineSchedule
from emulator.trace.synthetic.transformer.transformer import Transformer

GPT3 = Transformer(layers=96, hidden=12288, sequence=2048, batch=1536, vocabulary=51200)
SMALL = Transformer(layers=4, hidden=512, sequence=1024, batch=8, micro_batches=4, vocabulary=4096)


def test_experts_are_held_once_and_the_rest_by_every_replica() -> None:
    model = replace(SMALL, experts=6, expert=2, data=2)
    held = sum(model.stage_parameters(stage) for stage in range(model.pipeline))
    alone = replace(SMALL, experts=6)
    assert held + 2 * model.stage_expert_parameters == alone.stage_parameters(0) + alone.stage_expert_parameters
    assert replace(SMALL, experts=1).expert_parameters == 0


@pytest.mark.parametrize("pipeline", [1, 2, 4])
def test_stages_hold_every_parameter_once_and_the_shared_embedding_twice(pipeline: int) -> None:
    model = replace(SMALL, pipeline=pipeline)
    held = sum(model.stage_parameters(stage) for stage in range(pipeline))
    copies = model.word_embedding_parameters if pipeline > 1 else 0
    assert held == SMALL.stage_parameters(0) + copies


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


def test_described_is_flat_and_complete() -> None:
    plain = described(replace(SMALL, recompute=True))
    assert plain["layers"] == 4
    assert plain["schedule"] == "1f1b"
    assert plain["recompute"] == 1
    assert plain["device_tflops"] == "200"
