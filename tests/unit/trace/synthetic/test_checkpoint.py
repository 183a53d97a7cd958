"""Who writes and reads how many bytes of a checkpoint."""

from __future__ import annotations

from typing import Any

import pytest

from emulator.errors import PlanError
from emulator.trace.synthetic.checkpoint import MODELS, Checkpointing, CheckpointPart, parse_parameters

GIB = 1 << 30


def test_checkpoints_have_the_sizes_that_mlperf_storage_publishes() -> None:
    sizes = {name: Checkpointing(parameters=model.parameters).written_bytes / GIB for name, model in MODELS.items()}
    assert round(sizes["llama-3.1-8b"]) == 105
    assert round(sizes["llama-3.1-405b"], -1) == 5290
    narrow = MODELS["llama-3.1-70b"].parameters - 80 * 2 * 8192 * 512  # MLPerf's 70B has 128 heads of 64
    assert int(Checkpointing(parameters=narrow).written_bytes / GIB) in (911, 912)


@pytest.mark.parametrize(
    ("zero_stage", "saved", "held"),
    [
        (0, [(20, 120), (0, 0)], [(20, 120), (20, 120)]),
        (1, [(20, 60), (0, 60)], [(20, 60), (20, 60)]),
        (2, [(20, 60), (0, 60)], [(20, 60), (20, 60)]),
        (3, [(10, 60), (10, 60)], [(10, 60), (10, 60)]),
    ],
)
def test_zero_splits_what_data_ranks_hold(
    zero_stage: int, saved: list[tuple[int, int]], held: list[tuple[int, int]]
) -> None:
    job = Checkpointing(parameters=10, data=2, zero_stage=zero_stage)
    assert [tuple(job.saved_bytes(part, rank) for part in CheckpointPart) for rank in range(2)] == saved
    assert [tuple(job.held_bytes(part, rank) for part in CheckpointPart) for rank in range(2)] == held


@pytest.mark.parametrize(
    ("text", "parameters"), [("llama-3.1-8b", 8_030_261_248), ("7e9", 7_000_000_000), ("12345678901234567", None)]
)
def test_a_model_is_a_name_or_a_number(text: str, parameters: int | None) -> None:
    if parameters is None:
        with pytest.raises(ValueError, match="is neither a model"):
            parse_parameters(text)
    else:
        assert parse_parameters(text) == parameters


@pytest.mark.parametrize("text", ["llama", "0", "-3", "1.5", "nan", "inf", ""])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is neither a model \(llama-3.1-8b, .*\) nor a number of parameters"):
        parse_parameters(text)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"data": 0}, "data is 0: it must be at least 1"),
        ({"every": 0}, "every is 0: it must be at least 1"),
        ({"zero_stage": 4}, "zero_stage is 4: ZeRO has the stages 0 to 3"),
        ({"zero_stage": -1}, "zero_stage is -1: it must be at least 0"),
        ({"step_micros": 1 << 41}, "step_micros is 2199023255552: it must be at most"),
        ({"weight_bytes": 1 << 50}, "a checkpoint has .* bytes; the limit is"),
        ({"call_bytes": 1, "parameters": 1 << 20}, "rank 0 would make 14680064 file operations .*: raise call_bytes"),
    ],
)
def test_impossible_numbers_are_refused(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(PlanError, match=problem):
        Checkpointing(**{"parameters": 100, **fields})


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("llama-3.1-8b", 8_030_261_248),
        ("llama-3.1-70b", 70_553_706_496),
        ("llama-3.1-405b", 405_853_388_800),
    ],
)
def test_parameters_are_those_of_the_published_weights(name: str, parameters: int) -> None:
    assert MODELS[name].parameters == parameters
