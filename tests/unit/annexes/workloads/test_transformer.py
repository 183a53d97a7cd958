"""Sizes and times of a transformer against published numbers."""

from dataclasses import replace

import pytest

from emulator.annexes.workloads.options import described
from emulator.annexes.workloads.transformer import PipelineSchedule, Transformer, parse_transformer, pipeline_steps
from emulator.errors import PlanError

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


def _order(schedule: PipelineSchedule, *, stage: int, stages: int, micro_batches: int) -> str:
    steps = pipeline_steps(schedule, stage=stage, stages=stages, micro_batches=micro_batches)
    return " ".join(f"{'F' if step.is_forward else 'B'}{step.micro_batch}{'!' * step.is_last}" for step in steps)


@pytest.mark.parametrize(
    ("stage", "order"),
    [
        (0, "F0 F1 F2 B0 F3 B1 B2 B3!"),
        (1, "F0 F1 B0 F2 B1 F3 B2 B3!"),
        (2, "F0 B0 F1 B1 F2 B2 F3 B3!"),
    ],
)
def test_1f1b_warms_up_then_alternates(stage: int, order: str) -> None:
    assert _order(PipelineSchedule.ONE_F_ONE_B, stage=stage, stages=3, micro_batches=4) == order


def test_1f1b_with_fewer_micro_batches_than_stages() -> None:
    assert _order(PipelineSchedule.ONE_F_ONE_B, stage=0, stages=8, micro_batches=2) == "F0 F1 B0 B1!"


@pytest.mark.parametrize("stage", [0, 1, 2])
def test_gpipe_goes_all_forward_then_all_backward(stage: int) -> None:
    assert _order(PipelineSchedule.GPIPE, stage=stage, stages=3, micro_batches=3) == "F0 F1 F2 B2 B1 B0!"


@pytest.mark.parametrize(
    ("stage", "order"),
    [
        (0, "F0a F1a F0b F1b F2a B0b F3a B1b F2b B0a F3b B1a B2b B3b! B2a B3a!"),
        (1, "F0a F1a F0b B0b F1b B1b F2a B0a F3a B1a F2b B2b F3b B3b! B2a B3a!"),
    ],
)
def test_interleaved_stages_pass_as_many_micro_batches_as_there_are_stages_before_the_next_chunk(
    stage: int, order: str
) -> None:
    """Two stages of two chunks, a and b; Narayanan et al., SC'21, figure 4."""
    steps = pipeline_steps(PipelineSchedule.ONE_F_ONE_B, stage=stage, stages=2, micro_batches=4, virtual_stages=2)
    names = (
        f"{'F' if step.is_forward else 'B'}{step.micro_batch}{'ab'[step.chunk]}{'!' * step.is_last}" for step in steps
    )
    assert " ".join(names) == order


@pytest.mark.parametrize(("stages", "chunks"), [(2, 3), (4, 2), (3, 1)])
def test_every_chunk_processes_every_micro_batch_forward_and_then_backward(stages: int, chunks: int) -> None:
    for stage in range(stages):
        steps = list(
            pipeline_steps(
                PipelineSchedule.ONE_F_ONE_B,
                stage=stage,
                stages=stages,
                micro_batches=2 * stages,
                virtual_stages=chunks,
            )
        )
        passes = [(step.chunk, step.micro_batch, step.is_forward) for step in steps]
        assert len(set(passes)) == len(passes) == 2 * 2 * stages * chunks
        for chunk, k, is_forward in passes:
            assert is_forward or passes.index((chunk, k, True)) < passes.index((chunk, k, False))
        assert [step.chunk for step in steps if step.is_last] == list(reversed(range(chunks)))


def test_what_is_not_given_has_a_default_and_the_batch_follows() -> None:
    assert parse_transformer("layers=4, data=2,micro-batches=3") == Transformer(
        layers=4, hidden=8192, sequence=2048, data=2, micro_batches=3, batch=6
    )


def test_words_switches_and_rates_are_read() -> None:
    found = parse_transformer("layers=2,schedule=gpipe,recompute=1,shard_optimizer=0,device_tflops=312.5")
    assert (found.schedule, found.recompute, found.shard_optimizer) == (PipelineSchedule.GPIPE, True, False)
    assert found.device_tflops == 312.5


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("hidden=8", "give layers=N"),
        ("layers=4,hiden=8", "did you mean 'hidden'?"),
        ("layers", "'layers': write NAME=VALUE"),
        ("layers=many", "layers: 'many': give a whole number"),
        ("layers=3,pipeline=2", "layers"),
    ],
)
def test_what_cannot_be_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=r"layers|hidden") as refused:
        parse_transformer(text)
    assert problem in str(refused.value)
