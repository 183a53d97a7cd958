"""The nodes of a job that writes checkpoints."""

from __future__ import annotations

from emulator.trace.meaning.model import CommKind
from emulator.trace.synthetic.checkpoint import Checkpointing
from emulator.trace.synthetic.checkpoint_workload import checkpoint_workload
from emulator.trace.synthetic.synthetic import FileCall


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
