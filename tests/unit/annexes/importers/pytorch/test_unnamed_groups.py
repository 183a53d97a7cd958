"""Process groups that Gloo does not record, and receives from any rank: settled by what all ranks recorded."""

from collections.abc import Callable
from pathlib import Path

import pytest

from emulator.annexes.importers.importing import import_trace, importer_named
from emulator.annexes.importers.model import Fate, ImportedTrace, RecordedOperation
from emulator.errors import TraceError
from emulator.trace.meaning.model import CommKind
from tests.support import import_sources
from tests.support.pytorch_traces import HostDocument, KinetoDocument, tensor, write

RANKS = 4
ROWS, COLUMNS = ((0, 1), (2, 3)), ((0, 2), (1, 3))


def imported(
    folder: Path, calls: Callable[[int, HostDocument], None], meshes: tuple[tuple[tuple[int, ...], ...], ...] = (ROWS,)
) -> ImportedTrace:
    """Host traces of four ranks, with the groups that each is in, as init_device_mesh makes them."""
    for rank in range(RANKS):
        host = HostDocument(pid=100 + rank)
        own = [(number, group) for number, mesh in enumerate(meshes, 1) for group in mesh if rank in group]
        named = [
            (f"{2 * number + meshes[number - 1].index(group)}", f"mesh_{number}", group, 2) for number, group in own
        ]
        host.groups(("0", "default_pg", [], RANKS), *named)
        calls(rank, host)
        write(host, folder / f"et_{rank}.json")
    return import_trace(importer_named("pytorch"), folder)


def gather(host: HostDocument, *, ranks: int) -> None:
    host.node("c10d::_allgather_base_", [tensor(1, 3000 * ranks), tensor(2, 3000), "<Object>", True, -1])


def reduce(host: HostDocument, elements: int = 500) -> None:
    host.node("c10d::allreduce_", [[tensor(1, elements)], "<Object>", "<Object>"])


def groups_of(trace: ImportedTrace) -> list[list[tuple[int, ...]]]:
    return [[one.ranks or tuple(range(RANKS)) for one in rank.operations] for rank in trace.ranks]


def counted(trace: ImportedTrace, fate: Fate) -> dict[str, int]:
    found = import_sources.counted(trace, fate)
    found.pop("the rank is that in the name of the file", None)
    return found


@pytest.mark.parametrize(("ranks", "group"), [(2, ROWS), (4, (tuple(range(4)),) * 2)])
def test_sizes_say_which_group_gathers(ranks: int, group: tuple[tuple[int, ...], ...], tmp_path: Path) -> None:
    trace = imported(tmp_path, lambda _, host: gather(host, ranks=ranks))
    assert groups_of(trace) == [[group[rank // 2]] for rank in range(RANKS)]
    assert {one.size_bytes for rank in trace.ranks for one in rank.operations} == {12_000}
    assert counted(trace, Fate.GUESSED) == {}


def test_calls_of_the_members_say_which_group_it_is(tmp_path: Path) -> None:
    """Ranks 0 and 2 reduce 500 elements, ranks 1 and 3 others: neither rows nor all ranks can be meant."""
    trace = imported(tmp_path, lambda rank, host: reduce(host, 500 + rank % 2), (ROWS, COLUMNS))
    assert groups_of(trace) == [[COLUMNS[rank % 2]] for rank in range(RANKS)]
    assert counted(trace, Fate.GUESSED) == {}


def test_several_groups_that_fit_are_refused_with_their_names(tmp_path: Path) -> None:
    with pytest.raises(TraceError) as refused:
        imported(tmp_path, lambda _, host: gather(host, ranks=2), (ROWS, COLUMNS))
    assert "the process group of this all_gather is not recorded; it may be [0, 1] ('2') or [0, 2] ('4')" in str(
        refused.value
    )
    assert 'record_function("pg=NAME")' in str(refused.value)


def test_no_group_that_fits_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        TraceError, match=r"rank 0: .*fits none of the process groups of this rank \(\[0, 1\] \('2'\)\)"
    ):
        imported(tmp_path, lambda rank, host: gather(host, ranks=2) if rank != 1 else reduce(host))


def test_a_barrier_that_may_be_of_all_ranks_is_taken_so_and_counted(tmp_path: Path) -> None:
    trace = imported(tmp_path, lambda _, host: host.node("c10d::barrier", ["<Object>"]) and None)
    assert groups_of(trace) == [[tuple(range(RANKS))]] * RANKS
    assert counted(trace, Fate.GUESSED) == {"process group not recorded: all ranks taken for a barrier": 4}


def message(host: HostDocument, call: str, elements: int, *numbers: int) -> None:
    host.node(f"c10d::{call}", [[tensor(1, elements)], "<Object>", *numbers])


def ends(operations: list[RecordedOperation]) -> list[tuple[CommKind, int, int]]:
    return [(one.kind, one.peer, one.size_bytes // 4) for one in operations]


def test_receives_from_any_rank_get_the_sends_that_nothing_else_receives(tmp_path: Path) -> None:
    """Rank 1 sends 7 and then 8 elements, rank 2 sends 8, rank 3 sends with another tag; rank 0 names rank 1 once."""

    def calls(rank: int, host: HostDocument) -> None:
        if rank == 0:
            message(host, "recv_any_source_", 8, 0)
            message(host, "recv_", 7, 1, 0)
            message(host, "recv_any_source_", 8, 0)
            message(host, "recv_any_source_", 8, 5)
        else:
            for elements in {1: (7, 8), 2: (8,), 3: (8,)}[rank]:
                message(host, "send", elements, 0, 5 if rank == 3 else 0)

    trace = imported(tmp_path, calls)
    received = [(CommKind.RECV, 2, 8), (CommKind.RECV, 1, 7), (CommKind.RECV, 1, 8), (CommKind.RECV, 3, 8)]
    assert ends(trace.ranks[0].operations) == received
    assert counted(trace, Fate.INFERRED)["sender of a receive from any rank: by tag, size and order"] == 3


def test_equal_senders_of_a_receive_from_any_rank_are_a_guess(tmp_path: Path) -> None:
    def calls(rank: int, host: HostDocument) -> None:
        for _ in range(RANKS - 1 if rank == 0 else 1):
            message(host, "recv_any_source_" if rank == 0 else "send", 8, 0, *([0] if rank else []))

    trace = imported(tmp_path, calls)
    assert ends(trace.ranks[0].operations) == [(CommKind.RECV, peer, 8) for peer in (1, 2, 3)]
    assert counted(trace, Fate.GUESSED) == {"sender of a receive from any rank: by tag, size and order": 2}


def test_a_receive_that_no_rank_sends_to_is_refused(tmp_path: Path) -> None:
    def calls(rank: int, host: HostDocument) -> None:
        for _ in range(RANKS if rank == 0 else 1):
            message(host, *(("recv_any_source_", 8, 0) if rank == 0 else ("send", 8, 0, 0)))

    with pytest.raises(TraceError, match=r"rank 0: .*no rank sends 32 bytes with tag 0"):
        imported(tmp_path, calls)


def test_a_coalesced_reduce_scatter_of_kineto_counts_all_its_tensors(tmp_path: Path) -> None:
    """Gloo executes it as an all-reduce of each tensor, which alone have the type of its elements."""
    trace = KinetoDocument(rank=0, world_size=1)
    listed = {"Input_Dims": [[[5], [6]], [[10], [12]], []], "Input_type": ["TensorList", "TensorList", ""]}
    trace.operator("c10d::reduce_scatter_tensor_coalesced_", 10, 5, **listed)
    trace.operator("c10d::allreduce_", 16, 2, Input_Dims=[[[12]]], Input_type=["TensorList"])
    for number, elements in enumerate((10, 12, 12)):
        facts = {"Input_Dims": [[elements]], "Input_type": ["float"]}
        trace.note("gloo:all_reduce", 20 + 10 * number, 8, tid=300, **facts)
    write(trace, tmp_path / "0.json")
    [rank] = import_trace(importer_named("pytorch"), tmp_path).ranks
    nodes = [(one.operation.size_bytes, one.duration_ns) for one in rank.nodes if one.operation is not None]
    assert nodes == [(88, 18_000), (48, 8_000)]


def test_a_message_without_its_other_end_is_refused(tmp_path: Path) -> None:
    def calls(rank: int, host: HostDocument) -> None:
        message(host, *(("recv_", 8, 1, 0) if rank == 0 else ("send", 9, 0, 0)))

    with pytest.raises(TraceError, match=r"rank 0: .*no rank in them recorded the other end of this recv"):
        imported(tmp_path, calls)
