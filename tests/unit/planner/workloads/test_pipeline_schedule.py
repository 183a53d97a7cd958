"""Order of micro-batches in a pipeline stage."""

from __future__ import annotations

import pytest

from emulator.planner.workloads.pipeline_schedule import PipelineSchedule, pipeline_steps


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
