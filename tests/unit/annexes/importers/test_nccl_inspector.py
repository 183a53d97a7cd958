"""What NCCL's Inspector writes, and what becomes of it."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from emulator.annexes.importers.model import Fate, NodeResource
from emulator.errors import TraceError
from emulator.trace.meaning.model import CommKind
from tests.support.import_sources import (
    MIB,
    RANKS,
    counted,
    imported,
    inspector_call,
    inspector_record,
    inspector_records,
    write_inspector,
)

read = partial(imported, "nccl-inspector")


def write(folder: Path, rank: int, records: list[dict[str, Any]]) -> None:
    (folder / f"rank{rank}.log").write_text("".join(json.dumps(record) + "\n" for record in records))


def test_sizes_are_in_chakra_s_terms(tmp_path: Path) -> None:
    write_inspector(tmp_path)
    trace = read(tmp_path)
    facts = [(one.kind, one.size_bytes, one.ranks, one.peer) for one in trace.ranks[2].operations]
    assert facts == [
        (CommKind.ALL_REDUCE, 4 * MIB, (), -1),
        (CommKind.ALL_GATHER, 65536, (2, 3), -1),
        (CommKind.SEND, 32768, (2, 3), 1),
        (CommKind.RECV, 32768, (2, 3), 1),
        (CommKind.REDUCE_SCATTER, 65536, (), -1),  # what each of four ranks gets is a quarter
    ]
    assert trace.ranks[0].nodes[0].duration_ns == 900_000


def test_verbose_records_have_times(tmp_path: Path) -> None:
    write_inspector(tmp_path, verbose=True)
    nodes = read(tmp_path).ranks[0].nodes
    # The all-reduce ended 900 µs after its start, the all-gather 50 µs after its own.
    assert [(one.duration_ns, one.deps) for one in nodes if one.place is NodeResource.CPU] == [
        (1_100_000, (1,)),
        (950_000, (2, 3)),
    ]


def test_records_that_some_ranks_lost_are_left_out(tmp_path: Path) -> None:
    for rank in range(RANKS):
        records = [
            inspector_record(rank, "0xfeed", rank, 4, inspector_call("AllReduce", number, 1000 + number, 5))
            for number in range(6)
            if (rank, number) not in ((1, 0), (2, 3))
        ]
        write(tmp_path, rank, records)
    trace = read(tmp_path)
    assert [[one.size_bytes for one in rank.operations] for rank in trace.ranks] == [[1001, 1002, 1004, 1005]] * 4
    assert trace.losses.number(Fate.DROPPED) == 6


def test_a_process_with_several_devices(tmp_path: Path) -> None:
    records = [
        inspector_record(7, "0xfeed", rank, 4, inspector_call("AllReduce", 0, 1 << 20, 5)) for rank in range(RANKS)
    ]
    write(tmp_path, 0, records)
    assert len(read(tmp_path).ranks) == RANKS
    write(tmp_path, 1, [inspector_record(7, "0xbeef", 0, 2, inspector_call("AllReduce", 0, 8, 5))])
    with pytest.raises(TraceError, match=r"process 107 has 4 ranks of a communicator.*record with a process for each"):
        read(tmp_path)


def test_a_world_that_no_communicator_holds_is_guessed(tmp_path: Path) -> None:
    for rank in range(RANKS):
        call = inspector_call("AllReduce", 0, 512, 5)
        write(tmp_path, rank, [inspector_record(rank, f"0xbeef{rank // 2}", rank % 2, 2, call)])
    trace = read(tmp_path)
    assert [one.operations[0].ranks for one in trace.ranks] == [(0, 1), (0, 1), (2, 3), (2, 3)]
    assert trace.losses.number(Fate.GUESSED) == RANKS


def test_a_missing_rank_is_missed(tmp_path: Path) -> None:
    for rank in (0, 1, 3):
        write(tmp_path, rank, [inspector_record(rank, "0xfeed", rank, 4, inspector_call("AllReduce", 0, 512, 5))])
    assert read(tmp_path).missing == [2]


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("coll_perf", "coll_msg_size_bytes"), -4, "rank1.log, line 1: all_reduce of -4 bytes"),
        (("coll_perf", "coll_exec_time_us"), -4, "rank1.log, line 1: has a time of -4 µs"),
        (("coll_perf", "coll"), 7, "rank1.log, line 1: cannot be read as a record of NCCL Inspector.*coll_perf.coll"),
        (("coll_perf",), None, "rank1.log, line 1: has neither coll_perf nor p2p_perf"),
        (("header", "rank"), 9, "process 101 has 2 ranks of a communicator"),
        (("header", "n_ranks"), 5, "its communicator has 5 ranks; it had 4"),
        (("coll_perf", "coll_msg_size_bytes"), 5, "all_reduce of 5 B .*; rank 0 has all_reduce of 4 MiB"),
    ],
)
def test_damage_is_named_with_its_line(path: tuple[str, ...], value: object, said: str, tmp_path: Path) -> None:
    for rank in range(RANKS):
        records = inspector_records(rank)
        if rank == 1:
            place: Any = records[0]
            for key in path[:-1]:
                place = place[key]
            place[path[-1]] = value
        write(tmp_path, rank, records)
    with pytest.raises(TraceError, match=said):
        read(tmp_path)


def test_a_cut_line_at_the_end_is_counted_and_one_before_refused(tmp_path: Path) -> None:
    write_inspector(tmp_path)
    path = tmp_path / "node0-pid103.log"
    whole = path.read_text()
    path.write_text(whole[:-30])
    trace = read(tmp_path)
    assert (Fate.DROPPED, "records cut off at the end of the file") in {(fate, what) for fate, what, _ in trace.losses}
    path.write_text(whole[:200] + "\n" + whole)
    with pytest.raises(TraceError, match=r"node0-pid103.log, line 1: cannot be read as a record"):
        read(tmp_path)


def test_records_that_a_newer_version_adds_are_counted_and_named(tmp_path: Path) -> None:
    write_inspector(tmp_path)
    path = next(tmp_path.glob("*.log"))
    lines = path.read_text().splitlines()
    record = json.loads(lines[-1])
    newer = {key: record[key] for key in ("header", "metadata")}
    newer["metadata"]["inspector_output_format_version"] = "v4.2"
    path.write_text("\n".join([*lines, json.dumps(newer | {"dump_stats": {"dropped": 0}})]) + "\n")
    trace = read(tmp_path)
    dropped = counted(trace, Fate.DROPPED)
    assert dropped["records of an unknown kind, dump_stats (Inspector output v4.2; known: v4.0)"] == 1
    path.write_text(
        "\n".join([json.dumps({"net_stats": 1}), *lines[:-1], json.dumps(record | {"net_perf": {}})]) + "\n"
    )
    trace = read(tmp_path)
    dropped = counted(trace, Fate.DROPPED)
    assert dropped["records of an unknown kind, net_stats"] == 1
    assert dropped["parts of records of an unknown kind, net_perf (Inspector output v4.2; known: v4.0)"] == 1
    path.write_bytes("\n".join([*lines, json.dumps(newer | {"KIND": {}})]).encode().replace(b"KIND", b"\xff") + b"\n")
    with pytest.raises(TraceError, match=rf"line {len(lines) + 1}.*cannot be read as a record.*(?i:utf-8)"):
        read(tmp_path)
    path.write_text("\n".join([*lines, json.dumps(newer | {"coll_perf": {"coll": 1}})]) + "\n")
    with pytest.raises(TraceError, match=r"Inspector output v4\.2; known: v4\.0"):
        read(tmp_path)
