import json
import os
import pickle
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from emulator.annexes.importers.importing import check_agreement, find_importer, import_trace, importer_named
from emulator.annexes.importers.model import (
    Fate,
    ImportedNode,
    ImportedRank,
    ImportedTrace,
    Losses,
    NodeResource,
    RecordedOperation,
)
from emulator.errors import InputError, TraceError
from emulator.trace.files.files import find_trace, is_master
from emulator.trace.meaning.model import CommKind
from tests.support.import_sources import RANKS, recorder_dump, write_nccl_log, write_recorder_pickles
from tests.support.pytorch_traces import write


def test_files_of_another_format_in_the_folder_are_named(tmp_path: Path) -> None:
    for rank in range(RANKS):
        (tmp_path / f"dump_{rank}").write_bytes(pickle.dumps(recorder_dump(rank)))
    trace_of_host = {"schema": "1.1.1-chakra.0.0.4", "nodes": [], "pid": 1}
    (tmp_path / "trace_of_host.json").write_text(json.dumps(trace_of_host))
    recorder = importer_named("flight-recorder")
    trace = import_trace(recorder, tmp_path)
    dropped = {what: tally.first for fate, what, tally in trace.losses if fate is Fate.DROPPED}
    assert dropped["files of another format: --from pytorch reads them"] == [str(tmp_path / "trace_of_host.json")]


def test_a_wrong_name_lists_all_that_can_be_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no format 'bla'; there are chakra, pytorch, flight-recorder"):
        importer_named("bla")


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert (is_master(pipe), find_importer(pipe)) == (False, None)
    with pytest.raises(TraceError, match="neither a regular file nor a folder"):
        find_trace(pipe, ranks=1)


def _newer_recorder(folder: Path) -> None:
    write_recorder_pickles(folder)
    dump = recorder_dump(3) | {"version": "2.77", "entries": [{"process_group": 7}]}
    (folder / "nccl_trace_rank_3").write_bytes(pickle.dumps(dump, protocol=2))


def _newer_log(folder: Path) -> None:
    write_nccl_log(folder)
    log = folder / "job.log"
    log.write_text(log.read_text().replace("2.27.3", "2.99.1").replace("datatype 7", "datatype 77"))


def _newer_host(folder: Path) -> None:
    write({"schema": "2.0.0-chakra.0.0.4", "pid": 1, "nodes": [{"id": "a"}]}, folder / "et_0.json")


def _newer_kineto(folder: Path) -> None:
    write({"schemaVersion": 7, "traceEvents": [{"ph": 3}]}, folder / "kineto_0.json")


@pytest.mark.parametrize(
    ("name", "make", "said"),
    [
        ("flight-recorder", _newer_recorder, "(dump 2.77; known: 2.10)"),
        ("nccl-log", _newer_log, "(NCCL 2.99; known: 2.18, "),
        ("pytorch", _newer_host, "(execution trace schema 2.0.0; known: 1.0.1, 1.0.2, 1.0.3, 1.1.0, 1.1.1)"),
        ("pytorch", _newer_kineto, "(Kineto schema 7; known: 1)"),
    ],
)
def test_what_is_refused_in_another_version_names_it(
    name: str, make: Callable[[Path], None], said: str, tmp_path: Path
) -> None:
    make(tmp_path)
    with pytest.raises(TraceError) as refused:
        import_trace(importer_named(name), tmp_path)
    assert said in str(refused.value)
    assert "corrupt" not in str(refused.value)


def test_a_known_version_is_not_named(tmp_path: Path) -> None:
    write_nccl_log(tmp_path)
    log = tmp_path / "job.log"
    log.write_text(log.read_text().replace("datatype 7", "datatype 77"))
    with pytest.raises(TraceError, match=r"data type 77 is not known; known: 0 to 11$"):
        import_trace(importer_named("nccl-log"), tmp_path)


def operation(kind: CommKind, size: int = 64, **facts: object) -> RecordedOperation:
    return RecordedOperation(where="", name=kind.label, kind=kind, size_bytes=size, **facts)  # type: ignore[arg-type]


def job(*ranks: Sequence[RecordedOperation], missing: Sequence[int] = ()) -> ImportedTrace:
    """A job whose ranks issue these operations."""
    made = []
    places = [rank for rank in range(len(ranks) + len(missing)) if rank not in missing]
    for rank, operations in zip(places, ranks, strict=True):
        nodes = []
        for number, one in enumerate(operations, 1):
            one.where = f"rank{rank}.json, node {number}"
            nodes.append(ImportedNode(number, one.name, NodeResource.NETWORK, operation=one))
        made.append(ImportedRank(rank, [f"rank{rank}.json"], "host", 0, {}, nodes))
    return ImportedTrace(Path("job"), "pytorch", made, missing, Losses())


def problem(*ranks: Sequence[RecordedOperation], missing: Sequence[int] = ()) -> str:
    with pytest.raises(TraceError) as caught:
        check_agreement(job(*ranks, missing=missing))
    return str(caught.value)


def reduces(*sizes: int, **facts: object) -> list[RecordedOperation]:
    return [operation(CommKind.ALL_REDUCE, size, **facts) for size in sizes]


def test_ranks_that_agree_pass() -> None:
    check_agreement(job(*(reduces(64, 128) for _ in range(4))))


def test_the_rank_that_differs_is_named_with_its_record() -> None:
    said = problem(reduces(64, 128), reduces(64, 256), reduces(64, 128))
    assert said.startswith("rank 1: rank1.json, node 2: all_reduce of 256 B")
    assert "collective 2" in said
    assert "rank 0 has all_reduce of 128 B" in said
    assert "rank0.json, node 2" in said


def test_another_type_is_named() -> None:
    said = problem(reduces(64), reduces(64), [operation(CommKind.BROADCAST)])
    assert said.startswith("rank 2: rank2.json, node 1: broadcast")


def test_a_rank_with_fewer_collectives_is_named() -> None:
    said = problem(reduces(64, 64), reduces(64), reduces(64, 64))
    assert said.startswith("rank 1: rank1.json: has 1 collective of")
    assert "has 2" in said


def test_groups_are_checked_apart() -> None:
    check_agreement(
        job(
            [*reduces(1, group="a", ranks=(0, 1)), *reduces(2, group="b", ranks=(0, 2))],
            reduces(1, group="a", ranks=(0, 1)),
            reduces(2, group="b", ranks=(0, 2)),
        )
    )


def test_a_rank_outside_its_group_is_refused() -> None:
    assert "has ranks [1, 2]: not the rank that calls in it" in problem(reduces(1, ranks=(1, 2)), [], [])


def test_a_guessed_group_is_said_so() -> None:
    assert "its process group is a guess" in problem(reduces(1), reduces(1), reduces(2, is_guess=True))


def test_ranks_without_a_file_are_not_missed() -> None:
    check_agreement(job(reduces(64), reduces(64), missing=[1]))
    assert "rank 2" in problem(reduces(64), reduces(65), reduces(64), missing=[1])


def test_roots() -> None:
    check_agreement(job(*([operation(CommKind.BROADCAST, root=2)] for _ in range(3))))
    said = problem(*([operation(CommKind.BROADCAST, root=root)] for root in (1, 0, 1)))
    assert "root 0 of a broadcast" in said or "root 1" in said


def test_a_root_that_one_member_names_is_that_of_all() -> None:
    trace = job(*([operation(CommKind.REDUCE, root=root)] for root in (-1, 1, -1)))
    check_agreement(trace)
    assert [one.operations[0].root for one in trace.ranks] == [1, 1, 1]


def test_the_size_of_a_scatter_is_the_root_s() -> None:
    trace = job(*([operation(CommKind.SCATTER, size, root=0)] for size in (96, 0, 0)))
    check_agreement(trace)
    assert [one.operations[0].size_bytes for one in trace.ranks] == [96, 96, 96]


def test_splits_agree_pair_by_pair() -> None:
    def exchange(send: tuple[int, ...], recv: tuple[int, ...]) -> list[RecordedOperation]:
        return [operation(CommKind.ALL_TO_ALL, sum(send), send_splits=send, recv_splits=recv)]

    check_agreement(job(exchange((1, 2), (1, 3)), exchange((3, 4), (2, 4))))
    said = problem(exchange((1, 2), (1, 3)), exchange((3, 4), (5, 4)))
    assert said.startswith("rank 0: rank0.json, node 1: 2 bytes to rank 1; rank 1 has 5 bytes from it")
    assert "has 3 splits in a process group of 2 ranks" in problem(*[exchange((1, 2, 3), (1, 2, 3))] * 2)


def test_messages_need_both_ends_of_one_size() -> None:
    def send(size: int = 8, **facts: object) -> RecordedOperation:
        return operation(CommKind.SEND, size, peer=1, **facts)

    def receive(size: int = 8, **facts: object) -> RecordedOperation:
        return operation(CommKind.RECV, size, peer=0, **facts)

    check_agreement(job([send(), send(tag=3)], [receive(tag=3), receive()]))
    check_agreement(job([send()], missing=[1]))
    assert "9 bytes sent; rank 1 has 8 bytes received" in problem([send(9)], [receive()])
    assert "sends 2 messages with tag 0 to rank 1, which receives 1" in problem([send(), send()], [receive()])
    assert "peer 0 is not another rank" in problem([operation(CommKind.SEND, 1, peer=0)], [])
    assert "peer 2 is not another rank" in problem([operation(CommKind.SEND, 1, peer=2)], [])
