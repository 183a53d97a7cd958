"""PyTorch's traces of a small job in the three ways in which people have them."""

from pathlib import Path

import pytest

from emulator.annexes.importers.importing import check_agreement
from emulator.annexes.importers.model import Fate, ImportedRank, NodeResource
from emulator.annexes.importers.pytorch.reading import read_pytorch
from emulator.errors import TraceError
from emulator.trace.meaning.model import CommKind
from tests.support.import_sources import counted
from tests.support.pytorch_traces import (
    HostDocument,
    KinetoDocument,
    data_parallel_host,
    data_parallel_rank,
    tensor,
    write,
)

MIB = 1 << 20


def facts(rank: ImportedRank) -> list[tuple[CommKind, int, str | None]]:
    return [(one.kind, one.size_bytes, one.group) for one in rank.operations]


@pytest.mark.parametrize("sources", ["host and kineto", "kineto", "host"])
def test_each_way_gives_the_collectives_that_were_issued(sources: str, tmp_path: Path) -> None:
    for rank in range(2):
        if "kineto" in sources:
            write(data_parallel_rank(rank, 2), tmp_path / f"worker{rank}.pt.trace.json")
        if "host" in sources:
            write(data_parallel_host(rank), tmp_path / f"et_{rank}.json")
    trace = read_pytorch(tmp_path)
    check_agreement(trace)
    assert [(one.rank, one.mode, one.world_size) for one in trace.ranks] == [(0, sources, 2), (1, sources, 2)]
    assert not trace.missing
    for one in trace.ranks:
        assert facts(one) == [(CommKind.ALL_REDUCE, MIB, "0"), (CommKind.ALL_REDUCE, MIB // 4, "0")]
        assert {operation.ranks for operation in one.operations} == {()}
    assert trace.losses.number(Fate.GUESSED) == 0


def test_a_rank_is_told_from_the_content_not_from_the_name(tmp_path: Path) -> None:
    for rank, name in ((0, "z.json"), (1, "a.json"), (2, "m9.json")):
        write(data_parallel_rank(rank, 3), tmp_path / name)
    ranks = read_pytorch(tmp_path).ranks
    assert [Path(one.files[0]).name for one in ranks] == ["z.json", "a.json", "m9.json"]


def test_without_a_rank_inside_the_number_in_which_names_differ_is_it(tmp_path: Path) -> None:
    for rank in range(2):
        document = data_parallel_rank(rank, 2)
        document.info = None
        write(document, tmp_path / f"node5_worker{rank}_step3.json")
    trace = read_pytorch(tmp_path)
    assert [Path(one.files[0]).name for one in trace.ranks] == [f"node5_worker{rank}_step3.json" for rank in range(2)]
    guesses = counted(trace, Fate.GUESSED)
    assert guesses.pop("the rank is that in the name of the file") == 2
    assert guesses == {"ranks of process group '0' not recorded: all ranks taken": 4}


def test_missing_ranks_are_named(tmp_path: Path) -> None:
    for rank in (0, 2):
        write(data_parallel_rank(rank, 4), tmp_path / f"{rank}.json")
    assert read_pytorch(tmp_path).missing == [1, 3]


def test_two_traces_of_a_kind_for_one_rank_are_refused(tmp_path: Path) -> None:
    for name in ("a.json", "b.json"):
        write(data_parallel_rank(1, 2), tmp_path / name)
    with pytest.raises(TraceError, match=r"rank 1: has several Kineto traces: .*a.json, .*b.json"):
        read_pytorch(tmp_path)


def test_traces_of_different_steps_are_refused(tmp_path: Path) -> None:
    write(data_parallel_rank(0, 2), tmp_path / "kineto.json")
    host = data_parallel_host(0)
    host.node("c10d::barrier", ["<Object>"])
    write(host, tmp_path / "host.json")
    with pytest.raises(TraceError, match=r"2 all_reduce\) than .*host.json \(2 all_reduce, 1 barrier\)"):
        read_pytorch(tmp_path)


def test_gloo_s_collectives_take_the_time_of_their_execution(tmp_path: Path) -> None:
    """Issued at 10, executed on another thread from 20 to 70, waited for until 75."""
    trace = KinetoDocument(rank=0, world_size=1)
    shape = {"Input_Dims": [[[64]]], "Input_type": ["TensorList"]}
    trace.operator("c10d::allreduce_", 10, 5, **shape)
    trace.note("gloo:all_reduce", 20, 50, tid=300, Input_Dims=[[64]], Input_type=["float"])
    trace.operator("aten::add", 75, 10)
    write(trace, tmp_path / "0.json")
    [rank] = read_pytorch(tmp_path).ranks
    [node] = [one for one in rank.nodes if one.place is NodeResource.NETWORK]
    assert (node.duration_ns, node.operation is not None and node.operation.size_bytes) == (50_000, 256)
    after = [one for one in rank.nodes if node.node_id in one.deps]
    assert [(one.place, one.duration_ns) for one in after] == [(NodeResource.CPU, 15_000)]


def test_a_host_trace_alone_orders_communication_by_its_data(tmp_path: Path) -> None:
    """The second reads what became of the first; the third has its own data; the barrier waits for all."""
    host = HostDocument()
    first, second, third = ([tensor(storage, 100)] for storage in (1, 2, 3))
    host.node("c10d::allreduce_", [first, "<Object>"], [first])
    host.node("aten::add", [first[0], 1], [second[0]])
    host.node("c10d::allreduce_", [second, "<Object>"], [second])
    host.node("c10d::allreduce_", [third, "<Object>"], [third])
    host.node("c10d::barrier", ["<Object>"])
    host.node("c10d::allreduce_", [third, "<Object>"], [third])
    write(host, tmp_path / "rank0.json")
    [rank] = read_pytorch(tmp_path).ranks
    assert [one.deps for one in rank.nodes] == [(), (1,), (), (1, 2, 3), (3, 4)]


@pytest.mark.parametrize("is_flat", [False, True])
def test_splits_roots_peers_and_tags_are_kept(is_flat: bool, tmp_path: Path) -> None:
    host = HostDocument(is_flat=is_flat)
    out, into = tensor(1, 30), tensor(2, 60)
    call = host.node("c10d::alltoall_base_", [into, out, "<Object>", [2, 4], [1, 2], False, -1])
    host.node("record_param_comms", [out, 7, 94594108284448, 0, "all_to_allv", [1, 2], [2, 4]], [into], parent=call)
    call = host.node("c10d::broadcast_", [[out], "<Object>", 1, 0, False, -1], [[out]])
    host.node("record_param_comms", [[out], 8, 94594108284448, 1, "broadcast", [], []], [[out]], parent=call)
    host.node("c10d::send", [[out], "<Object>", 1, 17])
    host.node("c10d::recv_", [[into], "<Object>", 1, 18])
    host.node("record_param_comms", [9, 0, 0, "wait", [], []])
    write(host, tmp_path / "rank0.json")
    all_to_all, broadcast, send, receive = read_pytorch(tmp_path).ranks[0].operations
    assert (all_to_all.size_bytes, all_to_all.send_splits, all_to_all.recv_splits) == (120, (40, 80), (80, 160))
    assert (broadcast.size_bytes, broadcast.root) == (120, 1)
    assert [(one.size_bytes, one.peer, one.tag) for one in (send, receive)] == [(120, 1, 17), (240, 1, 18)]


def test_a_call_that_passes_for_part_of_an_unfinished_one_is_its_own(tmp_path: Path) -> None:
    """While a send of Gloo is under way, host traces give it as the parent of what comes next."""
    host = HostDocument()
    data = tensor(1, 30)
    send = host.node("c10d::send", [[data], "<Object>", 1, 0])
    host.node("c10d::send", [[data], "<Object>", 2, 0], parent=send)
    host.node("c10d::recv_", [[data], "<Object>", 2, 0], parent=send)
    write(host, tmp_path / "rank0.json")
    assert [(one.kind, one.peer) for one in read_pytorch(tmp_path).ranks[0].operations] == [
        (CommKind.SEND, 1),
        (CommKind.SEND, 2),
        (CommKind.RECV, 2),
    ]


def test_kineto_alone_has_the_splits_of_an_all_to_all(tmp_path: Path) -> None:
    trace = KinetoDocument(rank=0, world_size=2)
    shape = {
        "Input_Dims": [[6, 8], [3, 8], [], [], []],
        "Input_type": ["float", "float", "", "ScalarList", "ScalarList"],
    }
    for number, (into, out) in enumerate([("[1, 5]", "[1, 2]"), ("[]", "[]"), ("[2, ...]", "[1, ...]")]):
        trace.operator("c10d::alltoall_base_", 10 + 20 * number, 5, **shape, Concrete_Inputs=["", "", "", into, out])
    write(trace, tmp_path / "0.json")
    imported = read_pytorch(tmp_path)
    check_agreement(imported)
    splits = [(one.send_splits, one.recv_splits) for one in imported.ranks[0].operations]
    assert splits == [((32, 64), (32, 160)), (None, None), (None, None)]
    [shortened] = [tally for fate, what, tally in imported.losses if fate is Fate.GUESSED and "splits" in what]
    assert (shortened.count, "at 50.000 us" in shortened.first[0]) == (1, True)


def test_what_the_library_says_of_its_call_is_read_in_every_spelling(tmp_path: Path) -> None:
    """Splits as a list or shortened; ranks by the first one and their distance, where the list is shortened."""
    odd = {"Process_Group_Ranks": "[1, 3, ..., 7]", "Group_size": 4, "Global_rank_start": 1, "Global_rank_stride": 2}
    trace = KinetoDocument(rank=1, world_size=8)
    for number, splits in enumerate(([1, 2, 3, 4], "[1, 2, ...]")):
        times = number * 100, (number * 100 + 30, 10)
        trace.collective("all_to_allv", 10, *times, group="1", **odd, In_split_size=splits, Out_split_size=splits)
    write(trace, tmp_path / "1.json")
    imported = read_pytorch(tmp_path)
    check_agreement(imported)
    listed, shortened = imported.ranks[0].operations
    assert (listed.ranks, listed.send_splits) == ((1, 3, 5, 7), (4, 8, 12, 16))
    assert shortened.send_splits is None
    guesses = counted(imported, Fate.GUESSED)
    assert guesses == {"splits of an all_to_all are shortened in the record: even": 1}


def test_the_size_of_a_scatter_is_that_of_all_parts(tmp_path: Path) -> None:
    for rank in range(2):
        trace = KinetoDocument(rank=rank, world_size=2)
        dims = {"Input_Dims": [[[5]], [], [], []], "Input_type": ["TensorList", "", "", "Scalar"]}
        trace.operator("c10d::scatter_", 10, 50, **dims, Concrete_Inputs=["", "", "", "0"])
        parts = {"Input_Dims": [[5], [5]], "Input_type": ["float", "float"]} if rank == 0 else {}
        trace.note("gloo:scatter", 20, 30, **parts)
        write(trace, tmp_path / f"{rank}.json")
    imported = read_pytorch(tmp_path)
    check_agreement(imported)
    assert [one.operations[0].size_bytes for one in imported.ranks] == [40, 40]


def test_coalesced_messages_share_a_kernel(tmp_path: Path) -> None:
    trace = KinetoDocument(rank=0, world_size=2)
    said = {"In_msg_nelems": 25, "Out_msg_nelems": 25, "dtype": "BFloat16", "Group_size": 2}
    trace.operator("record_param_comms", 10, 5, Collective_name="send", Dst_Rank=1, Process_Group_Name="0", **said)
    trace.operator("record_param_comms", 20, 5, Collective_name="recv", Src_Rank=1, Process_Group_Name="0", **said)
    trace.operator("nccl:coalesced", 30, 10)
    trace.kernel("ncclDevKernel_SendRecv", 50, 40, launch=32, stream=40)
    write(trace, tmp_path / "0.json")
    [rank] = read_pytorch(tmp_path).ranks
    nodes = [one for one in rank.nodes if one.operation is not None]
    assert [(one.operation.kind, one.operation.peer, one.duration_ns) for one in nodes if one.operation] == [
        (CommKind.SEND, 1, 40_000),
        (CommKind.RECV, 1, 40_000),
    ]
    assert [one.operation.size_bytes for one in nodes if one.operation] == [50, 50]


def test_a_kernel_without_a_call_is_dropped_and_said_so(tmp_path: Path) -> None:
    trace = data_parallel_rank(0, 2)
    trace.kernel("ncclDevKernel_AllReduce", 900, 10, stream=40)
    write(trace, tmp_path / "0.json")
    losses = read_pytorch(tmp_path).losses
    [(what, tally)] = [(what, tally) for fate, what, tally in losses if fate is Fate.DROPPED and "kernels" in what]
    assert (tally.count, "size and group are unknown" in what, "at 900.000 us" in tally.first[0]) == (1, True, True)


def test_nothing_of_pytorch_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text('{"a": 1}')
    with pytest.raises(TraceError, match="contains no PyTorch trace"):
        read_pytorch(tmp_path)
