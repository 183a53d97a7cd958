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
    """One pass of a micro-batch through a chunk of layers; `is_last` marks the last backward pass of the chunk."""

    micro_batch: int
    is_forward: bool
    is_last: bool = False
    chunk: int = 0


def pipeline_steps(
    schedule: PipelineSchedule, *, stage: int, stages: int, micro_batches: int, virtual_stages: int = 1
) -> Iterator[PipelineStep]:
    """Passes of one stage in order: every micro-batch once forward and once backward through each of its chunks.

    Args:
        schedule: without virtual stages; with them it is 1F1B, interleaved.
        stage, stages: number of the stage, and how many there are.
        micro_batches: with virtual stages a multiple of `stages`.
        virtual_stages: chunks of layers that a stage holds.

    Source: GPipe: Huang et al., NeurIPS 2019 (all forward, then all backward in reverse). 1F1B, with and without
    interleaving: Narayanan et al., SC'21, section 2.2 (stages - 1 - stage forward passes to warm up, then one of each).
    """
    if virtual_stages > 1:
        return _interleaved(stage, stages, micro_batches, virtual_stages)
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


def _interleaved(stage: int, stages: int, micro_batches: int, chunks: int) -> Iterator[PipelineStep]:
    """As many micro-batches as stages pass a chunk before the next chunk has its turn."""

    def step(number: int, *, is_forward: bool) -> PipelineStep:
        turn, rest = divmod(number, stages * chunks)
        chunk, k = rest // stages, turn * stages + rest % stages
        is_last = not is_forward and k == micro_batches - 1
        return PipelineStep(k, is_forward, is_last, chunk if is_forward else chunks - 1 - chunk)

    passes = micro_batches * chunks
    warmup = min(2 * (stages - 1 - stage) + (chunks - 1) * stages, passes)
    for number in range(warmup):
        yield step(number, is_forward=True)
    for number in range(passes):
        if number + warmup < passes:
            yield step(number + warmup, is_forward=True)
        yield step(number, is_forward=False)
