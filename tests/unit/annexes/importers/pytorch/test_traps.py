"""What real recordings have that trips an importer, each in a trace made by hand."""

import io
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from emulator.annexes.importers.importing import check_agreement
from emulator.annexes.importers.model import Fate
from emulator.annexes.importers.pytorch.reading import read_pytorch
from emulator.errors import TraceError
from emulator.trace.meaning.model import CommKind
from tests.support.import_sources import (
    counted,
    recognised,
)
from tests.support.pytorch_traces import (
    AUTOGRAD,
    HostDocument,
    KinetoDocument,
    data_parallel_host,
    data_parallel_rank,
    tensor,
    write,
)


def old_host(rank: int, groups: int) -> HostDocument:
    """Schema 1.0.1: the process group of a call is an address, another one on every rank."""
    host = HostDocument(pid=100 + rank, is_flat=True)
    for number in range(4):
        data = [tensor(number, 100 * (number + 1))]
        address = 94594108284448 + 1000 * rank + number % groups
        host.node("record_param_comms", [data, number, address, rank, "allreduce", [], []], [data])
    return host


@pytest.mark.parametrize("groups", [1, 2])
def test_unnamed_groups_are_told_apart_by_their_order_of_use(groups: int, tmp_path: Path) -> None:
    for rank in range(2):
        write(old_host(rank, groups), tmp_path / f"eg_{rank}.json")
    trace = read_pytorch(tmp_path)
    check_agreement(trace)
    names = [[one.group for one in rank.operations] for rank in trace.ranks]
    assert names == [[None] * 4 if groups == 1 else ["unnamed 1", "unnamed 2"] * 2] * 2
    guesses = counted(trace, Fate.GUESSED)
    assert guesses.get("process group not recorded: all ranks taken", 0) == (0 if groups == 1 else 8)


def test_calls_of_the_backward_thread_are_joined_by_their_order(tmp_path: Path) -> None:
    """Record ids agree on the main thread only, and the two threads' calls of one kind are interleaved in time."""
    host, kineto = HostDocument(pid=9), KinetoDocument(rank=0, world_size=1)
    sizes = {"main": [10, 20], "backward": [30, 40]}
    for tid, name in ((1, "main"), (2, "backward")):
        for number, size in enumerate(sizes[name]):
            record = host.node("c10d::allreduce_", [[tensor(size, size)], "<Object>"], [], tid=tid)
            start = 100 * number + (0 if name == "main" else -50)
            thread = AUTOGRAD if name == "backward" else 100
            number_in_kineto = record + 500 if name == "main" else record + 90_000
            kineto.operator("c10d::allreduce_", 200 + start, 10, tid=thread, Record_function_id=number_in_kineto)
    write(host, tmp_path / "host.json")
    write(kineto, tmp_path / "kineto.json")
    trace = read_pytorch(tmp_path)
    assert [one.size_bytes // 4 for one in trace.ranks[0].operations] == [30, 10, 40, 20]
    assert counted(trace, Fate.INFERRED)["calls joined by their order, as record ids do not agree"] == 2


@pytest.mark.parametrize(
    ("dtype", "width"),
    [("Float8_e4m3fn", 1), ("Float8_e5m2", 1), ("BFloat16", 2), ("Half", 2), ("Double", 8), ("Byte", 1), ("Bool", 1)],
)
def test_element_types(dtype: str, width: int, tmp_path: Path) -> None:
    trace = KinetoDocument(rank=0, world_size=1)
    trace.collective("_reduce_scatter_base", 64, 10, (20, 5), dtype=dtype)
    write(trace, tmp_path / "0.json")
    [rank] = read_pytorch(tmp_path).ranks
    assert [(one.kind, one.size_bytes) for one in rank.operations] == [(CommKind.REDUCE_SCATTER, 64 * width)]


def test_an_unknown_element_type_is_dropped_and_said_so(tmp_path: Path) -> None:
    trace = data_parallel_rank(0, 1)
    trace.collective("allreduce", 64, 700, (800, 5), dtype="Float4_e2m1fn_x2_future")
    write(trace, tmp_path / "0.json")
    dropped = counted(read_pytorch(tmp_path), Fate.DROPPED)
    assert dropped == {"all_reduce of unknown size": 1}


def test_what_a_linker_made_is_left_out_beside_its_sources(tmp_path: Path) -> None:
    host = data_parallel_host(0).document()
    write(host, tmp_path / "host.json")
    linked = {**host, "nodes": [{**one, "ts": 5.0, "dur": 1} for one in host["nodes"]]}
    write(linked, tmp_path / "linked_plus.json")
    write(data_parallel_rank(0, 2), tmp_path / "kineto.json")
    trace = read_pytorch(tmp_path)
    assert [Path(one).name for one in trace.ranks[0].files] == ["host.json", "kineto.json"]
    assert counted(trace, Fate.DROPPED)["files that a linker made of files that are there too"] == 1


@pytest.mark.parametrize(("name", "mode"), [("job.tar", "w"), ("job.tar.gz", "w:gz"), ("job.tgz", "w:gz")])
def test_an_archive_is_read_as_the_folder_in_it(name: str, mode: Any, tmp_path: Path) -> None:
    """With the members in no order, in folders, and beside what a Mac adds."""
    with tarfile.open(tmp_path / name, mode) as archive:
        for member, content in (
            ("job/._kineto_1.json", b"\x00\x05\x16\x07Mac OS X"),
            ("job/readme.txt", b"{}"),
            *(
                (f"job/{kind}/{rank}.json", write(make(rank), tmp_path / "one").read_bytes())
                for rank in (1, 0)
                for kind, make in (("kineto", lambda rank: data_parallel_rank(rank, 2)), ("host", data_parallel_host))
            ),
        ):
            info = tarfile.TarInfo(member)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    (tmp_path / "one").unlink()
    assert recognised(tmp_path / name) == "pytorch"
    trace = read_pytorch(tmp_path / name)
    check_agreement(trace)
    assert [(one.rank, one.mode) for one in trace.ranks] == [(0, "host and kineto"), (1, "host and kineto")]
    assert trace.ranks[1].files[1].endswith(f"{name}:job/kineto/1.json")


@pytest.mark.parametrize(
    "names",
    [
        ["host42_1234.1694128201545.pt.trace.json", "host43_99.1694128201557.pt.trace.json"],
        ["trace.0.json", "trace.1.json"],
        ["rank0/kineto.json", "rank1/kineto.json"],
        ["chakra_device_0.json", "chakra_device_1.json"],
    ],
)
def test_folders_are_recognised_as_tools_write_them(names: list[str], tmp_path: Path) -> None:
    for rank, name in enumerate(names):
        write(data_parallel_rank(rank, 2), tmp_path / name)
    assert recognised(tmp_path) == "pytorch"
    assert [one.rank for one in read_pytorch(tmp_path).ranks] == [0, 1]


Change = Callable[[KinetoDocument], None]
CALLS = 4


def job_of_three(rank: int) -> KinetoDocument:
    """Three all-reduces and an uneven all-to-all, then a message from each rank to the next one."""
    groups = [{"pg_name": "0", "pg_desc": "default_pg", "ranks": [0, 1, 2]}]
    trace = KinetoDocument(rank=rank, world_size=3, pid=70 + rank, groups=groups)
    for number in range(3):
        trace.collective("allreduce", 1000 + number, 100 * number, (100 * number + 30, 20))
    splits = {
        "In_split_size": str([10 + rank, 20, 30]),
        "Out_split_size": str([10 + of if rank == 0 else 10 * (rank + 1) for of in range(3)]),
    }
    sent, received = 60 + rank, [33, 60, 90][rank]
    trace.collective("all_to_allv", sent, 300, (330, 20), **splits, Out_msg_nelems=received)
    after, before = (rank + 1) % 3, (rank - 1) % 3
    trace.collective("send", 50, 400, (430, 20), Dst_Rank=after, Group_size=3)
    trace.collective("recv", 50, 500, (530, 20), Src_Rank=before, Group_size=3)
    return trace


def calls(trace: KinetoDocument) -> list[dict[str, Any]]:
    return [one for one in trace.events if one["name"] == "record_param_comms"]


def said(number: int, **changed: Any) -> Change:
    return lambda trace: calls(trace)[number]["args"].update(
        {key.replace("_", " "): one for key, one in changed.items()}
    )


def other_kind(number: int, name: str) -> Change:
    def change(trace: KinetoDocument) -> None:
        record = calls(trace)[number]
        record["args"]["Collective name"] = name
        trace.events[trace.events.index(record) - 1]["name"] = f"c10d::{name}_"

    return change


def without(number: int) -> Change:
    def remove(trace: KinetoDocument) -> None:
        start = calls(trace)[number]["ts"]
        trace.events = [one for one in trace.events if not start - 1 <= one["ts"] < start + 49]

    return remove


def one_more(trace: KinetoDocument) -> None:
    trace.collective("allreduce", 7, 600, (630, 20))


def test_the_job_agrees_as_it_is(tmp_path: Path) -> None:
    for rank in range(3):
        write(job_of_three(rank), tmp_path / f"{rank}.json")
    trace = read_pytorch(tmp_path)
    check_agreement(trace)
    assert [len(one.operations) for one in trace.ranks] == [6] * 3


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (said(1, In_msg_nelems=999), "record_param_comms at 101.000 us: all_reduce of 3.90 KiB"),
        (said(1, dtype="Half"), "record_param_comms at 101.000 us: all_reduce of"),
        (other_kind(1, "allgather"), "record_param_comms at 101.000 us: all_gather of"),
        (other_kind(0, "broadcast"), "record_param_comms at 1.000 us: broadcast of"),
        (without(0), "record_param_comms at 101.000 us: all_reduce of"),
        (without(2), "record_param_comms at 301.000 us: all_to_all"),
        (without(3), "has 3 collectives of a process group in which rank 0 has 4"),
        (one_more, "record_param_comms at 601.000 us"),
        (said(3, In_split_size="[12, 19, 30]"), "record_param_comms at 301.000 us"),
        (said(3, In_split_size="[31, 30]", Out_split_size="[30, 30]"), "has 2 splits in a process group of 3 ranks"),
        (said(0, Process_Group_Name="7"), "record_param_comms at 1.000 us: the ranks of process group '7' are not"),
        (said(4, In_msg_nelems=49), "record_param_comms at 401.000 us: 196 bytes sent"),
        (said(5, Out_msg_nelems=49), "record_param_comms at 501.000 us): 196 bytes received|at 501.000 us"),
        (without(4), "sends 0 messages with tag 0 to rank 2, which receives 1 message; one is not in"),
        (without(5), "sends 1 message with tag 0 to rank 1, which receives 0 messages; one is not in"),
        (said(4, Dst_Rank=0), "rank 1 sends 1 message"),
        (said(4, Dst_Rank=1), "record_param_comms at 401.000 us: peer 1 is not another rank"),
        (said(4, Dst_Rank=5), "record_param_comms at 401.000 us: peer 5 is not another rank"),
    ],
)
def test_a_rank_that_differs_is_named_with_its_record(change: Change, place: str, tmp_path: Path) -> None:
    for rank in range(3):
        trace = job_of_three(rank)
        if rank == 1:
            change(trace)
        write(trace, tmp_path / f"{rank}.json")
    with pytest.raises(TraceError) as caught:
        check_agreement(read_pytorch(tmp_path))
    message = str(caught.value)
    assert any(one in message for one in place.split("|")), message
    assert "1.json" in message, message
