"""Pipeline schedules: the order in which a stage processes its micro-batches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum


class PipelineSchedule(Enum):
    """Pipeline schedules by their usual names."""

    ONE_F_ONE_B = "1f1b"
    GPIPE = "gpipe"


@dataclass(frozen=True, slots=True)
class PipelineStep:
    """One pass of a micro-batch through a stage; `is_last` marks the last backward pass of the stage."""

    micro_batch: int
    is_forward: bool
    is_last: bool = False


def pipeline_steps(
    schedule: PipelineSchedule, *, stage: int, stages: int, micro_batches: int
) -> Iterator[PipelineStep]:
    """Passes of one stage in order: every micro-batch once forward and once backward.

    Source: GPipe: Huang et al., NeurIPS 2019 (all forward, then all backward in reverse). 1F1B without interleaving:
    Narayanan et al., SC'21, section 2.2 (stages - 1 - stage forward passes to warm up, then one of each).
    """
    if schedule is PipelineSchedule.GPIPE:
        return _gpipe(micro_batches)
    return _one_forward_one_backward(min(stages - 1 - stage, micro_batches), micro_batches)


def _gpipe(micro_batches: int) -> Iterator[PipelineStep]:
    for k in range(micro_batches):
        yield PipelineStep(k, is_forward=True)
    for k in reversed(range(micro_batches)):
        yield PipelineStep(k, is_forward=False, is_last=k == 0)


def _one_forward_one_backward(warmup: int, micro_batches: int) -> Iterator[PipelineStep]:
    for k in range(warmup):
        yield PipelineStep(k, is_forward=True)
    for k in range(micro_batches):
        if k + warmup < micro_batches:
            yield PipelineStep(k + warmup, is_forward=True)
        yield PipelineStep(k, is_forward=False, is_last=k == micro_batches - 1)
