"""Published trace sets are understood as their list of contents says, or refused naming the cause."""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from emulator.errors import TraceError
from emulator.trace.analysis.summary import Summary, summarise
from emulator.trace.files.load import load_trace
from emulator.trace.meaning.meaning import TraceOptions
from emulator.trace.meaning.workload import build_workload
from tests.support.shared_traces import require_shared, trace_path


@dataclass(frozen=True)
class Published:
    """A trace set and its contents; counts are over all ranks."""

    path: str
    ranks: int
    nodes: int
    communications: dict[str, int] = field(default_factory=dict)
    groups: int | None = None

    def __str__(self) -> str:
        return self.path


SETS = [
    Published("real-dlrm-8r", 8, 15_624, {"all_to_all": 40, "all_reduce": 24}),
    Published("real-allreduce-2r-pg", 2, 3_268, {"all_reduce": 4}, groups=2),
    Published(
        "self-pytorch-3d-8r",
        8,
        3_592,
        {
            **{"all_reduce": 136, "all_to_all": 32, "reduce_scatter": 8, "all_gather": 8, "broadcast": 8},
            **{"send": 16, "recv": 16},
        },
    ),
    Published(
        "stage-llama-8r-dp2tp2pp2",
        8,
        2_816,
        {"all_gather": 384, "reduce_scatter": 256, "all_reduce": 80, "send": 32, "recv": 32},
        groups=16,
    ),
    Published(
        "stage-llama-64r-dp4tp4pp4",
        64,
        11_776,
        {"all_gather": 1_536, "reduce_scatter": 1_024, "all_reduce": 320, "send": 384, "recv": 384},
        groups=96,
    ),
    Published(
        "stage-moe-16r-dp2tp2ep4",
        16,
        3_040,
        {"all_gather": 384, "reduce_scatter": 192, "all_to_all": 128, "all_reduce": 96},
        groups=36,
    ),
    Published("text-converted-8r/DLRM_HybridParallel", 8, 256, {"all_to_all": 16, "all_reduce": 56}),
    Published("text-converted-8r/MLP_HybridParallel_Data_Model", 8, 280, {"all_gather": 48, "all_reduce": 88}),
    Published("text-converted-8r/Resnet50_DataParallel", 8, 1_720, {"all_reduce": 432}),
    Published(
        "astra-sim-examples/system/custom_collectives/custom_ring_allreduce_8npus_1MB",
        8,
        280,
        {"send": 112, "recv": 112},
    ),
    *(
        Published(f"astra-sim-examples/workload/microbenchmarks/{kind}/{ranks}npus_1MB", ranks, ranks, {kind: ranks})
        for kind in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
        for ranks in (4, 8, 16)
    ),
]


def understood(path: Path, *, lenient: bool = False, ranks: int | None = None) -> Summary:
    loaded = load_trace(path, ranks=ranks)
    workload = build_workload(loaded.traces, groups=loaded.groups, options=TraceOptions(lenient=lenient))
    return summarise(workload, loaded.traces, groups=loaded.groups)


@pytest.mark.parametrize("published", SETS, ids=str)
def test_playable_set_holds_what_is_published(published: Published) -> None:
    summary = understood(trace_path(published.path))
    assert (summary.ranks, summary.nodes) == (published.ranks, published.nodes)
    assert Counter(summary.communication_nodes) == Counter(published.communications)
    if published.groups is not None:
        assert summary.groups_defined == published.groups


def test_converted_durations_are_exclusive_already() -> None:
    for name in ("real-dlrm-8r", "real-allreduce-2r-pg"):
        assert understood(trace_path(name)).deducted_ns.most == 0


def test_incomplete_trace_is_refused_and_played_with_lenient() -> None:
    path = require_shared("traces", "mlcommons-chakra-tests", "chakra.0.et")
    with pytest.raises(TraceError, match=r"1277 such dependencies in it.*--lenient"):
        understood(path, ranks=1)
    summary = understood(path, ranks=1, lenient=True)
    assert (summary.nodes, summary.dropped) == (3_664, 1_277)
    assert summary.communication_nodes == {"all_reduce": 5, "broadcast": 2}
    assert summary.warnings["communication on the CPU"] == 14


@pytest.mark.parametrize("name", ["one_comm_coll_node_allreduce", "one_comm_send_node", "two_comp_nodes_dependent"])
def test_older_wire_format_is_refused_by_name(name: str) -> None:
    with pytest.raises(TraceError, match="before October 2023"):
        understood(require_shared("traces", "legacy-chakra-old") / name)
