"""What a recording says decides what is played: no default stands in for a fact that is there."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from emulator.annexes.importers.importing import import_trace, importer_named
from emulator.annexes.importers.model import Fate, ImportedTrace, RecordedOperation
from emulator.annexes.importers.writing import write_imported
from emulator.errors import TraceError
from emulator.trace.files.load import load_trace
from emulator.trace.meaning.model import CommKind
from emulator.trace.meaning.workload import build_workload
from tests.support.import_sources import counted, log_call, log_prefix, recorder_entry
from tests.support.import_sources import imported as read
from tests.support.pytorch_traces import HostDocument, KinetoDocument, data_parallel_host, tensor, write

WORLD = {"Process_Group_Ranks": "[0, 1, 2, 3]", "Group_size": 4}


def imported(
    folder: Path, calls: Callable[[int, KinetoDocument], None], *, groups: Any = lambda _: (), ranks: int = 4
) -> ImportedTrace:
    """A job whose ranks record what `calls` writes."""
    for rank in range(ranks):
        document = KinetoDocument(rank=rank, world_size=ranks, pid=100 + rank, groups=groups(rank))
        calls(rank, document)
        write(document, folder / f"kineto_{rank}.json")
    return read("pytorch", folder)


def host_with_call(rank: int, *, parent: str = "", **said: object) -> HostDocument:
    """A host trace with an all-reduce as a record of c10d, whose attributes are these."""
    document, value = data_parallel_host(rank), [tensor(8, 16)]
    within = {"parent": document.node(parent)} if parent else {}
    inputs = [value, 9, ["0", "default_pg"], rank, "allreduce", [], [], 0, 1, 2]
    document.node("record_param_comms", inputs, [value], **within, **said)
    return document


def operations(trace: ImportedTrace) -> list[list[RecordedOperation]]:
    return [list(one.operations) for one in trace.ranks]


def guesses(trace: ImportedTrace) -> list[str]:
    return list(counted(trace, Fate.GUESSED))


def test_the_root_is_the_rank_that_nccl_recorded(tmp_path: Path) -> None:
    def calls(_: int, document: KinetoDocument) -> None:
        document.collective("broadcast", 1024, 0, (30, 10), **WORLD, Rank=2)

    trace = imported(tmp_path, calls)
    assert [(one.root, one.size_bytes) for own in operations(trace) for one in own] == [(2, 4096)] * 4
    assert guesses(trace) == []


@pytest.mark.parametrize(
    ("listed", "fate", "what"),
    [
        ("[0, 1", Fate.GUESSED, "process group whose list of ranks cannot be read: by its name"),
        ("[0, ..., 3]", Fate.INFERRED, "process group whose list of ranks is shortened: by its name"),
    ],
)
def test_a_rank_list_that_cannot_be_read_is_named_with_its_place(
    listed: str, fate: Fate, what: str, tmp_path: Path
) -> None:
    def calls(_: int, document: KinetoDocument) -> None:
        document.collective("allreduce", 1024, 0, (30, 10), Process_Group_Ranks=listed, Group_size=4)

    trace = imported(tmp_path, calls)
    (tally,) = [tally for how, name, tally in trace.losses if (how, name) == (fate, what)]
    assert tally.count == 4
    assert tally.first[0].endswith("kineto_0.json, record_param_comms at 1.000 us")


@pytest.mark.parametrize(("listed", "groups"), [("[0, ..., 2]", {(0, 2), (1, 3)}), ("", {()})])
def test_start_and_stride_stand_for_a_list_that_is_shortened_and_for_no_other(
    listed: str, groups: set[tuple[int, ...]], tmp_path: Path
) -> None:
    """Kineto writes start 0 and stride 1 for a group whose ranks it does not know."""

    def calls(rank: int, document: KinetoDocument) -> None:
        own = {"Process_Group_Ranks": listed and f"[{rank % 2}, ..., {2 + rank % 2}]"}
        own |= {"Process_Group_Name": f"pairs{rank % 2}" if listed else "all", "Group_size": 2 if listed else 4}
        document.collective("allreduce", 1024, 0, (30, 10), **own)
        for event in document.document()["traceEvents"]:
            if "Group size" in event.get("args", {}):
                event["args"] |= {"Global rank start": rank % 2, "Global rank stride": 2}

    trace = imported(tmp_path, calls)
    assert {tuple(one.ranks) for own in operations(trace) for one in own} == groups


@pytest.mark.parametrize(
    ("field", "value"), [("Group size", "four"), ("Out msg nelems", 4.5), ("Out msg nelems", True)]
)
def test_a_value_that_is_no_number_is_counted(field: str, value: Any, tmp_path: Path) -> None:
    def calls(_: int, document: KinetoDocument) -> None:
        document.collective("allreduce", 1024, 0, (30, 10), **WORLD, Out_msg_nelems=1024)
        for event in document.document()["traceEvents"]:
            if field in event.get("args", {}):
                event["args"][field] = value

    dropped = counted(imported(tmp_path, calls), Fate.DROPPED)
    assert dropped.get(f"values of {field!r} that cannot be read: as if there were none") == 4


def test_how_long_the_profiler_recorded_is_not_dropped(tmp_path: Path) -> None:
    def calls(_: int, document: KinetoDocument) -> None:
        document.collective("allreduce", 1024, 0, (30, 10), **WORLD)
        for category in ("Trace", "python_function"):
            document.events.append({"ph": "X", "cat": category, "name": "x", "pid": 1, "tid": 1, "ts": 0, "dur": 9})

    dropped = list(counted(imported(tmp_path, calls), Fate.DROPPED))
    assert dropped == ["events of category python_function"]


@pytest.mark.parametrize(
    ("roots", "problem"), [((0, 1), "root"), ((4, 4), "root 4 of a broadcast is not in its group")]
)
def test_a_root_that_cannot_be_is_refused(roots: tuple[int, int], problem: str, tmp_path: Path) -> None:
    def calls(rank: int, document: KinetoDocument) -> None:
        document.collective("broadcast", 1024, 0, (30, 10), **WORLD, Rank=roots[rank > 1])

    with pytest.raises(TraceError, match=problem):
        imported(tmp_path, calls)


def test_peers_of_messages_are_ranks_of_the_world(tmp_path: Path) -> None:
    """Two pipelines over ranks 0, 2, 4 and 1, 3, 5: each rank sends to the next."""

    def groups(_: int) -> list[dict[str, Any]]:
        return [{"pg_name": "1", "ranks": [0, 2, 4]}, {"pg_name": "2", "ranks": [1, 3, 5]}]

    def calls(rank: int, document: KinetoDocument) -> None:
        said = {"group": str(rank % 2 + 1), "Group_size": 3}
        if rank >= 2:
            document.collective("recv", 1024, 0, (30, 10), Src_Rank=rank - 2, **said)
        if rank < 4:
            document.collective("send", 1024, 100, (130, 10), Dst_Rank=rank + 2, **said)

    trace = imported(tmp_path, calls, groups=groups, ranks=6)
    sent = [
        (one.rank, (0, 2, 4)[call.peer] if one.rank % 2 == 0 else (1, 3, 5)[call.peer], call.size_bytes)
        for one in trace.ranks
        for call in one.operations
        if call.kind is CommKind.SEND
    ]
    assert sent == [(rank, rank + 2, 4096) for rank in range(4)]


@pytest.mark.parametrize("said", ["1", "0"])
def test_a_peer_that_two_records_of_a_call_name_differently_is_a_guess(said: str, tmp_path: Path) -> None:
    """c10d says the rank within the group [1, 3], ProcessGroupNCCL that of the world."""

    def calls(rank: int, document: KinetoDocument) -> None:
        if rank % 2:
            name, way, peer = ("send", "Dst_Rank", 3) if rank == 1 else ("recv", "Src_Rank", 1)
            pair = {"Process_Group_Ranks": "[1, 3]", "Group_size": 2, "group": "5", way: peer}
            document.collective(name, 1024, 0, (30, 10), **pair)
            document.events[-4]["args"]["Concrete Inputs"] = ["", "", said if rank == 1 else "0", "0"]
        else:
            document.operator("aten::mm", 0, 10)

    trace = imported(tmp_path, calls)
    assert [one.peer for own in operations(trace) for one in own] == [1, 0]
    assert [what.partition(":")[0] for what in guesses(trace)] == (
        [] if said == "1" else ["peer of a send differs between two records of its call"]
    )


def test_a_peer_outside_of_its_group_is_refused(tmp_path: Path) -> None:
    def calls(rank: int, document: KinetoDocument) -> None:
        pair = {"Process_Group_Ranks": "[0, 1]" if rank < 2 else "[2, 3]", "Group_size": 2, "group": str(7 + rank // 2)}
        document.collective("send", 1024, 0, (30, 10), Dst_Rank=3 if rank == 0 else rank ^ 1, **pair)

    with pytest.raises(TraceError, match=r"the peer, rank 3, is not in the process group, which has ranks \[0, 1\]"):
        imported(tmp_path, calls)


SENT = (384, 64, 64, 0)


@pytest.mark.parametrize("has_splits", ["In_split_size", "Out_split_size"])
def test_splits_on_one_side_mean_equal_parts_on_the_other(has_splits: str, tmp_path: Path) -> None:
    """Every rank sends 384, 64, 64 and 0 B, so rank 0 receives 4 x 384; or the other way round."""
    sends = has_splits == "In_split_size"

    def calls(rank: int, document: KinetoDocument) -> None:
        other = 4 * SENT[rank]  # elements of a byte on the side with equal parts
        said = {"In_split_size": "[]", "Out_split_size": "[]", has_splits: str(list(SENT)), "dtype": "Byte"}
        counts = {"In_msg_nelems": 512 if sends else other, "Out_msg_nelems": other if sends else 512}
        document.collective("all_to_allv", 0, 0, (30, 10), **WORLD, **said, **counts)

    trace = imported(tmp_path, calls)
    for rank, (one,) in enumerate(operations(trace)):
        equal = (SENT[rank],) * 4
        assert (one.send_splits, one.recv_splits) == ((SENT, equal) if sends else (equal, SENT))
    assert guesses(trace) == []


def log(folder: Path, calls: dict[int, list[tuple[str, int, int]]]) -> ImportedTrace:
    """A log of NCCL; calls: rank → (function, opCount, elements)."""
    lines = [
        f"{log_prefix(rank)}ncclCommInitRank comm 0xa{rank} rank {rank} nranks {len(calls)} cudaDev {rank % 2} "
        f"nvmlDev 0 busId 1a000 commId 0xd - Init COMPLETE"
        for rank in calls
    ]
    for rank, own in calls.items():
        lines += [
            log_call(
                rank, name, op, count, comm=f"0xa{rank}", ranks=len(calls), root=1 - rank if name in "Send Recv" else 0
            )
            for name, op, count in own
        ]
    (folder / "job.log").write_text("\n".join(lines) + "\n")
    return read("nccl-log", folder)


WHOLE = [("AllReduce", op, 1024) for op in range(6)]


@pytest.mark.parametrize("lost", range(1, 5))
def test_a_lost_line_of_a_log_is_named(lost: int, tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=f"opCount {lost}, which other ranks have, is missing") as refused:
        log(tmp_path, {0: WHOLE, 1: [one for one in WHOLE if one[1] != lost]})
    assert refused.value.rank == 1


def test_what_a_log_lacks_at_its_ends_is_left_out_on_all_ranks(tmp_path: Path) -> None:
    calls = [("AllReduce", op, 1024 * (op + 1)) for op in range(6)]
    trace = log(tmp_path, {0: calls, 1: calls[1:5]})
    assert [[one.size_bytes // 4096 for one in own] for own in operations(trace)] == [[2, 3, 4, 5]] * 2
    assert trace.losses.number(Fate.DROPPED) == 2


@pytest.mark.parametrize(("lost", "number"), [((), 0), ((2,), 1), ((2, 3), 2)])
def test_what_a_log_lacks_of_all_ranks_is_counted(lost: tuple[int, ...], number: int, tmp_path: Path) -> None:
    calls = [one for one in WHOLE if one[1] not in lost]
    trace = log(tmp_path, {0: calls, 1: calls})
    assert [len(own) for own in operations(trace)] == [6 - number] * 2
    assert trace.losses.number(Fate.DROPPED) == number


def test_collectives_beside_messages_are_numbered_by_their_order(tmp_path: Path) -> None:
    """Rank 2 has no part in the message, so that it counts one call less."""
    both, third = [("AllReduce", 0, 1024)], [("AllReduce", 0, 1024), ("AllReduce", 1, 2048)]
    trace = log(
        tmp_path,
        {
            0: [*both, ("Send", 1, 7), ("AllReduce", 2, 2048)],
            1: [*both, ("Recv", 1, 7), ("AllReduce", 2, 2048)],
            2: third,
        },
    )
    assert [sum(one.kind is CommKind.ALL_REDUCE for one in own) for own in operations(trace)] == [2, 2, 2]
    assert trace.losses.number(Fate.DROPPED) == 0


def test_groups_of_one_split_share_a_name(tmp_path: Path) -> None:
    """Four ranks as a mesh of 2 x 2 whose halves are both called 1."""
    for rank in range(4):
        half = [0, 1] if rank < 2 else [2, 3]
        config = {"0": {"desc": "default_pg", "ranks": "[0, 1, 2, 3]"}, "1": {"desc": "half", "ranks": str(half)}}
        dumped(tmp_path, recorder_entry(1, "all_reduce", [1024], seq=1, at_us=100, group="1"), config, rank)
    trace = read("flight-recorder", tmp_path)
    assert [one.ranks for own in operations(trace) for one in own] == [(0, 1), (0, 1), (2, 3), (2, 3)]


SHARDS = (1024, 2048, 0, 4096)
"""Elements of 4 bytes."""


@pytest.mark.parametrize("name", ["allgather", "reduce_scatter"])
def test_shards_of_unequal_size_are_played(name: str, tmp_path: Path) -> None:
    whole = sum(SHARDS)

    def calls(rank: int, document: KinetoDocument) -> None:
        sizes = (SHARDS[rank], whole) if name == "allgather" else (whole, SHARDS[rank])
        document.collective(name, sizes[0], 0, (30, 10), **WORLD, Out_msg_nelems=sizes[1])

    trace = imported(tmp_path, calls)
    shards = tuple(4 * one for one in SHARDS)
    for rank, (one,) in enumerate(operations(trace)):
        own = (shards[rank],) * 4
        assert one.kind is CommKind.ALL_TO_ALL
        assert (one.send_splits, one.recv_splits) == ((own, shards) if name == "allgather" else (shards, own))
        assert one.size_bytes == sum(one.send_splits or ())
    assert [what for fate, what, _ in trace.losses if fate is Fate.INFERRED and "shards" in what]
    write_imported(trace, tmp_path / "converted")
    workload = build_workload(load_trace(tmp_path / "converted").traces)
    played = [one for program in workload.programs for one in program.communications.values()]
    assert [one.send_splits for one in played] == [own.send_splits for (own,) in operations(trace)]


def test_shards_whose_sum_is_not_the_output_are_refused_by_name(tmp_path: Path) -> None:
    def calls(rank: int, document: KinetoDocument) -> None:
        document.collective("allgather", 1024 * (rank + 1), 0, (30, 10), **WORLD)

    with pytest.raises(TraceError, match="inputs and outputs are not those of unequal shards of one all_gather"):
        imported(tmp_path, calls)


OTHER_KERNELS = (
    "void mori::moe::EpDispatchIntraNodeKernel<float>",
    "void pplx::a2aDispatchSend",
    "void flux::ag_gemm",
    "void deep_ep::internode::dispatch<false, 8, true, 128>(int4*, float*)",
    "nvshmemi_transfer_rma_nbi",
    "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*)",
    "one_shot_all_reduce_kernel",
    "kuserbuffers_pullrecv",
    "void mscclpp::allreduce6<__half>(__half*)",
)


def test_kernels_of_other_libraries_are_no_compute_without_a_word(tmp_path: Path) -> None:
    def calls(_: int, document: KinetoDocument) -> None:
        for number, name in enumerate((*OTHER_KERNELS, "gemm", "reduce_kernel")):
            document.kernel(name, 10 + 10 * number, 5, launch=5 + number)
        document.collective("allreduce", 1024, 100, (130, 10), **WORLD)

    trace = imported(tmp_path, calls)
    found = counted(trace, Fate.GUESSED)
    assert found == {
        "kernels that look like communication of libraries other than NCCL: played as compute": 4 * len(OTHER_KERNELS)
    }
    with pytest.raises(TraceError, match=f"needs a guess {4 * len(OTHER_KERNELS)} times: kernels that look like"):
        import_trace(importer_named("pytorch"), tmp_path, strict=True)


def test_operators_of_other_libraries_are_not_left_out_without_a_word(tmp_path: Path) -> None:
    """Those that call c10d themselves are played, and those within another one are part of it."""
    for rank in range(2):
        document = host_with_call(rank, parent="_c10d_functional::all_reduce")
        own = document.node("symm_mem::one_shot_all_reduce", [tensor(9, 16)])
        for name, parent in (("FusedDispatch", 1), ("aten::mm", 1), ("deep_ep::copy", own)):
            document.node(name, [tensor(9, 16)], parent=parent)
        write(document, tmp_path / f"et_{rank}.json")
    trace = read("pytorch", tmp_path)
    assert [[one.size_bytes for one in own] for own in operations(trace)] == [[1 << 20, 1 << 18, 64]] * 2
    [(what, tally)] = [(what, tally) for fate, what, tally in trace.losses if fate is Fate.GUESSED]
    assert what == "operators that look like communication of libraries other than NCCL: not played"
    assert (tally.count, tally.first[0].rpartition("/")[2]) == (4, "et_0.json, node 9 (symm_mem::one_shot_all_reduce)")
    with pytest.raises(TraceError, match="needs a guess 4 times: operators that look like"):
        import_trace(importer_named("pytorch"), tmp_path, strict=True)


@pytest.mark.parametrize(
    ("name", "sizes", "is_counted"),
    [
        ("allreduce", (8, 8), False),
        ("allreduce", (8, 9), True),
        ("_allgather_base", (8, 32), False),
        ("_allgather_base", (8, 24), True),
        ("_reduce_scatter_base", (8, 2), False),
        ("_reduce_scatter_base", (8, 4), True),
        ("all_to_all", (8, 8), False),
        ("all_to_all", (8, 12), True),
        ("scatter", (8, 2), False),
    ],
)
def test_an_output_that_does_not_fit_the_input_is_a_guess(
    name: str, sizes: tuple[int, int], is_counted: bool, tmp_path: Path
) -> None:
    def calls(_: int, document: KinetoDocument) -> None:
        even = {"In_split_size": [], "Out_split_size": []} if name == "all_to_all" else {}
        document.collective(name, sizes[0], 0, (30, 10), **WORLD, Out_msg_nelems=sizes[1], Rank=0, **even)

    found = guesses(imported(tmp_path, calls))
    assert [one.partition(" whose ")[2] for one in found] == [
        "input and output do not fit each other: by its input"
    ] * (is_counted)


@pytest.mark.parametrize("output", [5, 6])
def test_the_two_sizes_of_a_message_are_one(output: int, tmp_path: Path) -> None:
    def calls(rank: int, document: KinetoDocument) -> None:
        ends = {"Src_Rank": 0} if rank else {"Dst_Rank": 1}
        own = {"Out_msg_nelems": 5 if rank else output, "Process_Group_Ranks": "[0, 1]", "Group_size": 2}
        document.collective("recv" if rank else "send", 5, 0, (30, 10), **ends, **own)

    trace = imported(tmp_path, calls, ranks=2)
    expected = [] if output == 5 else ["send whose input and output do not fit each other: by its input"]
    assert guesses(trace) == expected


def test_an_attribute_of_a_call_that_is_not_known_is_counted(tmp_path: Path) -> None:
    for name in ("pg_name", "pg_nom"):
        for rank in range(2):
            write(host_with_call(rank, **{name: "0"}), tmp_path / f"et_{rank}.json")
        trace = read("pytorch", tmp_path)
        dropped = list(counted(trace, Fate.DROPPED))
        unread = ["values of 'attribute pg_nom' that cannot be read: as if there were none"]
        assert dropped == (unread if name == "pg_nom" else [])


@pytest.mark.parametrize(
    ("change", "unread"),
    [
        (lambda node: None, []),
        (lambda node: node["attrs"].append({"name": "pg_name", "type": "", "value": "1"}), ["attribute pg_name"]),
        (lambda node: node["attrs"].append({"name": "dtype", "type": "", "value": "x"}), ["dtype"]),
        (lambda node: node["attrs"].append({"name": "in_msg_nelems", "type": "", "value": 5}), ["dtype"]),
        (lambda node: node["outputs"].update(values=[7]), ["tensors"]),
        (lambda node: node["outputs"].update(values=[[tensor(8, 16), [8, 8, 0, "16", 4, "cuda:0"]]]), ["tensors"]),
    ],
)
def test_what_a_host_trace_says_of_a_call_and_cannot_be_read_is_counted(
    change: Callable[[dict[str, Any]], object], unread: list[str], tmp_path: Path
) -> None:
    for rank in range(2):
        document = host_with_call(rank, pg_name="0")
        change(document.nodes[-1])
        write(document, tmp_path / f"et_{rank}.json")
    trace = read("pytorch", tmp_path)
    dropped = list(counted(trace, Fate.DROPPED))
    assert dropped == [f"values of {one!r} that cannot be read: as if there were none" for one in unread]


@pytest.mark.parametrize(("splits", "is_counted"), [("[3, 3]", False), ("[3, ..., 3]", False), (10, True), ("x", True)])
def test_splits_that_are_no_list_are_counted_though_others_say_them(
    splits: Any, is_counted: bool, tmp_path: Path
) -> None:
    def calls(rank: int, document: KinetoDocument) -> None:
        sent, got = "[1, 3]", "[1, 1]" if rank == 0 else splits
        said = {"In_split_size": sent, "Out_split_size": got, "Out_msg_nelems": 6 if rank else 2}
        world = {"Process_Group_Ranks": "[0, 1]", "Group_size": 2}
        document.collective("all_to_allv", 4, 0, (30, 10), **world, **said)

    trace = imported(tmp_path, calls, ranks=2)
    assert [one.recv_splits for own in operations(trace) for one in own] == [(4, 4), (12, 12)]
    expected = ["values of 'Out split size' that cannot be read: as if there were none"] * is_counted
    assert list(counted(trace, Fate.DROPPED)) == expected


def test_merged_traces_of_several_ranks_are_refused(tmp_path: Path) -> None:
    """As tools merge them for a viewer: the events of both ranks in one file, told apart by the process id."""
    merged = KinetoDocument(rank=0, world_size=2, pid=100)
    merged.collective("allreduce", 1024, 0, (30, 10), Process_Group_Ranks="[0, 1]", Group_size=2)
    write(merged, tmp_path / "merged.json")
    assert read("pytorch", tmp_path).missing == [1]
    merged.pid = 101
    merged.collective("allreduce", 1024, 0, (30, 10), Process_Group_Ranks="[0, 1]", Group_size=2)
    write(merged, tmp_path / "merged.json")
    with pytest.raises(TraceError, match=r"merged.json: has threads of 2 processes \(100, 101\): traces of several"):
        read("pytorch", tmp_path)


def test_a_number_that_json_lacks_is_counted_and_the_rest_read(tmp_path: Path) -> None:
    def calls(_: int, document: KinetoDocument) -> None:
        document.collective("allreduce", 1024, 0, (30, 10), **WORLD)

    whole = imported(tmp_path, calls)
    text = (tmp_path / "kineto_2.json").read_text()
    (tmp_path / "kineto_2.json").write_text(text.replace('"args": {"', '"args": {"GB/s": inf, "', 1))
    trace = read("pytorch", tmp_path)
    assert operations(trace) == operations(whole)
    [(what, tally)] = [(what, tally) for fate, what, tally in trace.losses if fate is Fate.DROPPED]
    assert (tally.count, "no JSON" in what, "kineto_2.json (byte " in tally.first[0]) == (1, True, True)


@pytest.mark.parametrize("lacks", ["In split size", "Out split size"])
def test_splits_that_only_one_side_recorded_are_those_of_the_other_members(lacks: str, tmp_path: Path) -> None:
    def calls(rank: int, document: KinetoDocument) -> None:
        said = {"In_split_size": str(list(SENT)), "Out_split_size": str([SENT[rank]] * 4), "dtype": "Byte"}
        counts = {"In_msg_nelems": 512, "Out_msg_nelems": 4 * SENT[rank]}
        document.collective("all_to_allv", 0, 0, (30, 10), **WORLD, **said, **counts)
        for event in document.document()["traceEvents"]:
            event["args"].pop(lacks, None)

    trace = imported(tmp_path, calls)
    assert [(one.send_splits, one.recv_splits) for (one,) in operations(trace)] == [(SENT, (own,) * 4) for own in SENT]
    assert guesses(trace) == []


def test_a_process_group_of_as_many_other_ranks_is_not_that_of_all(tmp_path: Path) -> None:
    def calls(_: int, document: KinetoDocument) -> None:
        document.collective("allreduce", 1024, 0, (30, 10), Process_Group_Ranks="[0, 1, 2, 9]", Group_size=4)

    with pytest.raises(TraceError, match=r"the process group has ranks \[0, 1, 2, 9\]: not the rank that calls in it"):
        imported(tmp_path, calls)


def test_ranks_of_a_call_that_are_not_those_of_its_group_are_refused(tmp_path: Path) -> None:
    def calls(_: int, document: KinetoDocument) -> None:
        document.collective("allreduce", 1024, 0, (30, 10), group="1", Process_Group_Ranks="[0, 1, 2]", Group_size=3)

    with pytest.raises(TraceError, match=r"process group '1' has ranks \[0, 1, 2\]; it is defined with \[0, 1\]"):
        imported(tmp_path, calls, groups=lambda _: [{"pg_name": "1", "ranks": [0, 1]}], ranks=3)


def test_a_size_that_is_not_that_of_the_list_of_ranks_is_counted(tmp_path: Path) -> None:
    def calls(_: int, document: KinetoDocument) -> None:
        document.collective("allreduce", 1024, 0, (30, 10), **(WORLD | {"Group_size": 2}))

    assert guesses(imported(tmp_path, calls)) == [
        "size of a process group is not that of its list of ranks: by its ranks"
    ]


def test_a_log_that_lacks_its_first_calls_is_refused_where_messages_are_among_them(tmp_path: Path) -> None:
    both = [("AllReduce", 0, 1024), ("AllReduce", 1, 1024), ("Send", 2, 7), ("AllReduce", 3, 1024)]
    other = [("Recv", op, size) if name == "Send" else (name, op, size) for name, op, size in both]
    with pytest.raises(TraceError, match="with messages among them nothing tells which collective is which"):
        log(tmp_path, {0: both, 1: other[1:]})


def test_ranks_of_a_recorder_may_be_a_list_and_hold_the_rank_that_calls(tmp_path: Path) -> None:
    for ranks in ([0, 1], [1, 2]):
        entry = recorder_entry(1, "all_reduce", [1024], seq=1, at_us=100)
        for rank in range(2):
            dumped(tmp_path, entry, {"0": {"desc": "default_pg", "ranks": ranks}}, rank)
        if ranks == [0, 1]:
            assert [len(own) for own in operations(read("flight-recorder", tmp_path))] == [1, 1]
    with pytest.raises(TraceError, match=r"process group '0' has ranks \[1, 2\], not the rank that calls in it"):
        read("flight-recorder", tmp_path)


def test_calls_of_the_runtime_that_look_like_waits_are_counted(tmp_path: Path) -> None:
    def calls(_: int, document: KinetoDocument) -> None:
        document.collective("allreduce", 1024, 0, (30, 10), **WORLD)
        for name in ("aclrtSynchronizeStream", "zeEventHostSynchronize", "cudaEventSynchronize", "cudaEventQuery"):
            document.runtime(name, 50, 1)

    trace = imported(tmp_path, calls)
    assert guesses(trace) == ["calls of the runtime that may wait, of a name not known: as if none did"]
    assert trace.losses.number(Fate.GUESSED) == 2 * 4


def dumped(folder: Path, entry: Any, config: Any, rank: int) -> None:
    """A dump of the Flight Recorder with one call."""
    dump = {"version": "2.10", "pg_config": config, "entries": [entry]}
    (folder / f"nccl_trace_rank_{rank}.json").write_text(json.dumps(dump))


def recorded_message(folder: Path, sent: str, received: str, *, groups: tuple[str, str] = ("0", "0")) -> ImportedTrace:
    """A message of rank 0 to rank 1 of three, of which two have a process group of their own."""
    config = {"0": {"desc": "default_pg", "ranks": "[0, 1, 2]"}, "1": {"desc": "pair", "ranks": "[0, 1]"}}
    for rank, (name, group) in enumerate(zip((sent, received), groups, strict=True)):
        dumped(folder, recorder_entry(0, name, [64], seq=1, at_us=100, group=group), config, rank)
    return read("flight-recorder", folder)


def test_a_message_in_two_process_groups_is_a_guess(tmp_path: Path) -> None:
    assert guesses(recorded_message(tmp_path, "send 0->1", "recv 1<-0")) == []
    trace = recorded_message(tmp_path, "send 0->1", "recv 1<-0", groups=("0", "1"))
    assert guesses(trace) == ["messages whose two ends are in other process groups: by ranks"]


def test_a_message_of_another_rank_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"is a message of rank 99 of its process group, .* not of the rank that"):
        recorded_message(tmp_path, "send 0->1", "recv 99<-0", groups=("0", "1"))
