"""Generated traces through the project's own reader and checker: each is proven to finish, without a warning."""

import json
from pathlib import Path
from typing import Any

import pytest

from emulator.annexes.workloads.collective_loop import CollectiveLoop, collective_workload
from emulator.annexes.workloads.moe import MixtureOfExperts, Routing
from emulator.annexes.workloads.moe_workload import moe_workload
from emulator.annexes.workloads.totals import SyntheticWorkload
from emulator.annexes.workloads.transformer import ContextExchange, PipelineSchedule, Transformer
from emulator.annexes.workloads.transformer_workload import transformer_workload
from emulator.trace.files.et import read_rank
from emulator.trace.files.files import find_trace
from emulator.trace.files.write_workload import write_workload
from emulator.trace.meaning.model import CommKind, Resource, Workload
from emulator.trace.meaning.workload import build_workload


def _read_back(workload: SyntheticWorkload, folder: Path) -> Workload:
    write_workload(workload, folder)
    found = find_trace(folder, ranks=workload.ranks)
    groups = json.loads(found.group_file.read_text()) if found.group_file else None
    return build_workload([read_rank(path, rank) for rank, path in enumerate(found.paths)], groups=groups)


def _assert_same(read: Workload, made: SyntheticWorkload) -> None:
    nodes = [node for program in read.programs for node in program.communications.values()]
    assert sum(len(program) for program in read.programs) == made.totals.nodes
    assert len(nodes) == sum(entry.nodes for entry in made.totals.traffic)
    assert sum(node.size_bytes for node in nodes) == sum(entry.total_bytes for entry in made.totals.traffic)
    receives = sum(entry.operations for entry in made.totals.traffic if entry.kind is CommKind.RECV)
    assert read.instances == sum(entry.operations for entry in made.totals.traffic) - receives
    assert {group.ranks for group in read.groups[1:]} == set(made.groups.values())
    device_ns = sum(int(program.duration_ns[program.resource == Resource.DEVICE].sum()) for program in read.programs)
    assert device_ns == made.totals.compute_micros * 1000
    assert dict(read.warnings) == {}


@pytest.mark.parametrize("schedule", PipelineSchedule)
@pytest.mark.parametrize("degrees", [(1, 1, 1), (2, 1, 1), (1, 4, 1), (1, 1, 4), (2, 3, 1), (2, 2, 2), (1, 4, 2)])
@pytest.mark.parametrize("is_lean", [False, True])
def test_a_transformer_is_proven_to_finish(
    schedule: PipelineSchedule, degrees: tuple[int, int, int], is_lean: bool, tmp_path: Path
) -> None:
    tensor, pipeline, data = degrees
    model = Transformer(
        layers=2 * pipeline,
        hidden=8,
        sequence=16,
        batch=6 * data,
        micro_batches=6,
        vocabulary=32,
        tensor=tensor,
        pipeline=pipeline,
        data=data,
        schedule=schedule,
        recompute=is_lean,
        shard_optimizer=is_lean,
    )
    workload = transformer_workload(model)
    _assert_same(_read_back(workload, tmp_path), workload)


@pytest.mark.parametrize(
    "change",
    [
        {"context": 4, "pipeline": 2},
        {"context": 2, "context_exchange": ContextExchange.ALL_GATHER, "data": 2},
        {"tensor": 2, "sequence_parallel": True, "pipeline": 2},
        {"tensor": 2, "sequence_parallel": True, "experts": 4, "top_k": 2, "expert": 4, "data": 2, "context": 2},
        {"pipeline": 4, "virtual_stages": 2, "micro_batches": 8, "data": 2},
        {"pipeline": 2, "virtual_stages": 4, "micro_batches": 2},
    ],
)
def test_every_kind_of_parallelism_is_proven_to_finish(change: dict[str, Any], tmp_path: Path) -> None:
    base: dict[str, Any] = {"layers": 8, "hidden": 8, "sequence": 16, "batch": 32, "micro_batches": 4, "vocabulary": 32}
    workload = transformer_workload(Transformer(**base | change))
    _assert_same(_read_back(workload, tmp_path), workload)


@pytest.mark.parametrize("routing", Routing)
def test_a_mixture_of_experts_is_proven_to_finish(routing: Routing, tmp_path: Path) -> None:
    model = MixtureOfExperts(
        expert=4, data=2, layers=2, tokens=50, micro_batches=2, hidden=16, experts=8, top_k=2, expert_groups=4,
        groups_per_token=2, routing=routing, shard_optimizer=True,
    )  # fmt: skip
    workload = moe_workload(model)
    _assert_same(_read_back(workload, tmp_path), workload)


@pytest.mark.parametrize("kind", [kind for kind in CommKind if kind.is_collective])
def test_a_loop_of_any_collective_is_proven_to_finish(kind: CommKind, tmp_path: Path) -> None:
    loop = CollectiveLoop(kind=kind, ranks=5, size_bytes=0 if kind is CommKind.BARRIER else 50, count=3)
    workload = collective_workload(loop)
    read = _read_back(workload, tmp_path)
    _assert_same(read, workload)
    assert {node.kind for program in read.programs for node in program.communications.values()} == {kind}
