"""What is written for readers of NCCL Inspector's records, and read again by our own."""

import json
from pathlib import Path
from typing import Any

import pytest

from emulator.annexes.exports.nccl_inspector import write
from emulator.annexes.importers.importing import import_trace, importer_named
from emulator.errors import ResultError
from emulator.trace.meaning.model import CommKind
from tests.support.runs import collective, pair, write_run

US = 1000
BW = {  # by hand, from plugins/profiler/inspector/inspector.cc: bytes that count for bandwidth, factor of busbw
    "all_reduce": ("AllReduce", 4_000_000, 4_000_000, 1.5),
    "all_gather": ("AllGather", 4_000_000, 16_000_000, 0.75),
    "reduce_scatter": ("ReduceScatter", 1_000_000, 4_000_000, 0.75),
    "broadcast": ("Broadcast", 4_000_000, 4_000_000, 1.0),
    "reduce": ("Reduce", 4_000_000, 4_000_000, 1.0),
}


def records(folder: Path, samples: Any) -> list[dict[str, Any]]:
    run = write_run(folder / "run", samples)
    write(run, folder / "out.log")
    return [json.loads(line) for line in (folder / "out.log").read_text().splitlines()]


@pytest.mark.parametrize("kind", BW)
def test_sizes_and_bandwidths_are_those_of_the_inspector(kind: str, tmp_path: Path) -> None:
    name, message, traffic, factor = BW[kind]
    samples = collective([0, 0, 0, 1000 * US], [2000 * US] * 4, kind=kind, size_bytes=4_000_000)
    found = records(tmp_path, samples)
    assert len(found) == 4
    first, last = found[0]["coll_perf"], found[3]["coll_perf"]
    assert (first["coll"], first["coll_msg_size_bytes"]) == (name, message)
    assert (first["coll_exec_time_us"], last["coll_exec_time_us"]) == (2000, 1000)
    assert first["coll_algobw_gbs"] == pytest.approx(traffic / 2000 / 1000)
    assert first["coll_busbw_gbs"] == pytest.approx(factor * traffic / 2000 / 1000)
    assert [one["header"]["rank"] for one in found] == [0, 1, 2, 3]
    assert len({one["header"]["id"] for one in found}) == 1
    times = last["event_trace_ts"]
    assert times["coll_stop_ts"] - times["coll_start_ts"] == 1000


def test_each_function_of_a_communicator_is_numbered_apart(tmp_path: Path) -> None:
    samples = [
        one
        for at, kind in enumerate(("all_reduce", "all_gather", "all_reduce"))
        for one in collective([at * US] * 2, [at * US + US] * 2, kind=kind, size_bytes=64, instance=at)
    ]
    numbers = [(one["coll_perf"]["coll"], one["coll_perf"]["coll_sn"]) for one in records(tmp_path, samples)]
    assert numbers[:3] == [("AllReduce", 0), ("AllGather", 0), ("AllReduce", 1)]


def test_messages_have_their_peer(tmp_path: Path) -> None:
    found = records(tmp_path, pair(0, 5 * US, size_bytes=4096))
    assert {(one["p2p_perf"]["p2p"], one["p2p_perf"]["p2p_peer"], one["p2p_perf"]["p2p_sn"]) for one in found} == {
        ("Send", 1, 1),
        ("Recv", 0, 1),
    }


def test_what_nccl_has_no_record_for_is_left_out_and_said(tmp_path: Path) -> None:
    samples = [
        *collective([0, 0], [US, US], kind="barrier", size_bytes=0),
        *collective([0, 0], [US, US], kind="all_reduce", size_bytes=8, instance=1, early=True),
        *collective([0, 0], [US, US], kind="all_reduce", size_bytes=8, instance=2),
    ]
    run = write_run(tmp_path / "run", samples)
    notes = write(run, tmp_path / "out.log")
    assert sorted(notes) == ["2 records were omitted: barrier", "2 records were omitted: payload that came early"]
    with pytest.raises(ResultError, match="has no measured collective or message that NCCL knows"):
        write(write_run(tmp_path / "other", samples[:2]), tmp_path / "other.log")


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    samples = [
        one
        for at, kind in enumerate(("all_reduce", "reduce_scatter", "all_gather", "all_to_all"))
        for one in collective([at * 9 * US] * 4, [(at * 9 + 4) * US] * 4, kind=kind, size_bytes=4096, instance=at)
    ]
    records(tmp_path, samples)
    trace = import_trace(importer_named("nccl-inspector"), tmp_path / "out.log")
    assert [(one.kind, one.size_bytes) for one in trace.ranks[3].operations] == [
        (kind, 4096)
        for kind in (CommKind.ALL_REDUCE, CommKind.REDUCE_SCATTER, CommKind.ALL_GATHER, CommKind.ALL_TO_ALL)
    ]


@pytest.mark.parametrize("kind", ["storage_write", "storage_read"])
def test_storage_is_left_out(kind: str, tmp_path: Path) -> None:
    stored = collective([0], [5 * US], kind=kind, size_bytes=64, instance=1)
    run = write_run(tmp_path / "run", [*collective([0, 0], [US, US], kind="all_reduce", size_bytes=64), *stored])
    assert write(run, tmp_path / "out.log") == [f"1 records were omitted: {kind}"]
    assert len((tmp_path / "out.log").read_text().splitlines()) == 2
