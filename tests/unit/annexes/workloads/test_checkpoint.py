"""Who writes and reads how many bytes of a checkpoint."""

from typing import Any

import pytest

from emulator.annexes.workloads.checkpoint import (
    MODELS,
    Checkpointing,
    CheckpointPart,
    checkpoint_workload,
    parse_parameters,
)
from emulator.errors import PlanError
from emulator.trace.meaning.model import CommKind
from emulator.trace.synthetic.synthetic import FileCall

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


def listed(job: Checkpointing, rank: int = 0) -> list[tuple[str, tuple[int, ...]]]:
    return [(node.name, node.deps) for node in checkpoint_workload(job).nodes(rank)]


def test_steps_come_before_their_checkpoint_and_wait_for_the_one_before() -> None:
    job = Checkpointing(parameters=1, steps=5, every=2, step_micros=7, optimizer_bytes=0, restart=True)
    assert listed(job) == [
        ("restart.0", ()),
        ("restart.0.weights.pread.0", (1,)),
        ("step.1", (2,)),
        ("step.2", (3,)),
        ("checkpoint.2", (4,)),
        ("checkpoint.2.weights.pwrite.0", (5,)),
        ("checkpoint.2.weights.fsync", (6,)),
        ("step.3", (4, 7)),
        ("step.4", (8,)),
        ("checkpoint.4", (7, 9)),
        ("checkpoint.4.weights.pwrite.0", (10,)),
        ("checkpoint.4.weights.fsync", (11,)),
        ("step.5", (9, 12)),
    ]


def test_training_goes_on_while_a_checkpoint_is_written_asynchronously() -> None:
    job = Checkpointing(parameters=1, steps=2, step_micros=7, optimizer_bytes=0, asynchronous=True)
    names = dict(listed(job))
    assert names["step.2"] == (1,)
    assert names["checkpoint.2"] == (4, 5)


def test_files_are_transferred_in_operations_and_ranks_meet_at_the_end() -> None:
    job = Checkpointing(parameters=100, data=2, zero_stage=1, call_bytes=256)
    nodes = list(checkpoint_workload(job).nodes(1))
    files = [node.file for node in nodes if node.file is not None]
    path = "/checkpoints/step-1/optimizer-1"
    assert [(file.call, file.path, file.offset, file.size_bytes) for file in files] == [
        (FileCall.PWRITE, path, 0, 256),
        (FileCall.PWRITE, path, 256, 256),
        (FileCall.PWRITE, path, 512, 88),
        (FileCall.FSYNC, path, 0, 0),
    ]
    assert nodes[-1].kind is CommKind.BARRIER


def test_data_ranks_read_the_weights_that_the_first_of_them_wrote() -> None:
    job = Checkpointing(parameters=100, tensor=2, data=2, restart=True)
    nodes = [[node for node in checkpoint_workload(job).nodes(rank) if node.file] for rank in range(4)]
    written = {node.file.path for rank in nodes for node in rank if node.file and "checkpoint" in node.name}
    read = [[node.file.path for node in nodes[rank] if node.file and "restart" in node.name] for rank in (1, 3)]
    assert read == [
        ["/checkpoints/step-0/weights-1", "/checkpoints/step-0/optimizer-1"],
        ["/checkpoints/step-0/weights-1", "/checkpoints/step-0/optimizer-3"],
    ]
    assert "/checkpoints/step-1/weights-1" in written
    assert "/checkpoints/step-1/weights-3" not in written
