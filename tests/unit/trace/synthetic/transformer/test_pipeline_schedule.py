"""Order of micro-batches in a pipeline stage."""

from __future__ import annotations

import pytest

from emulator.trace.synthetic.transformer.pipeline_schedule import PipelineSchedule, pipeline_steps


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
