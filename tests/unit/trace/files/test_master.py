"""A master file gives back every communication as it was, and a damaged one is refused."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from emulator.errors import TraceError
from emulator.trace.files.files import is_master
from emulator.trace.files.load import load_trace
from emulator.trace.files.master import METADATA_KEY, SCHEMA, content_digest, read_master, write_master
from emulator.trace.files.write_workload import write_workload
from emulator.trace.meaning.model import RankTrace, Workload
from emulator.trace.meaning.order import communication_dependencies
from emulator.trace.meaning.workload import build_workload
from tests.support.random_traces import random_traces
from tests.support.traces import coll, node, rank_trace, recv, send


def communications(workload: Workload, traces: list[RankTrace]) -> list[list[object]]:
    """Of each rank in canonical order: all fields but ids and rows, ranks of the group, start, what is waited for."""
    return [
        [
            (
                replace(item, node_id=0, row=0, group=0, instance=0),
                workload.groups[item.group].ranks,
                int(traces[program.rank].start_micros[item.row]),
                waits,
            )
            for item, waits in zip(program.communications.values(), communication_dependencies(program), strict=True)
        ]
        for program in workload.programs
    ]


@pytest.mark.parametrize("seed", range(30))
def test_a_round_trip_keeps_every_communication(tmp_path: Path, seed: int) -> None:
    traces = random_traces(seed)
    workload = build_workload(traces)
    facts = write_master(tmp_path / "x.parquet", workload, traces, name="mine")
    write_workload(read_master(tmp_path / "x.parquet").streams(), tmp_path / "back")
    loaded = load_trace(tmp_path / "back", ranks=len(traces))
    back = build_workload(loaded.traces, groups=loaded.groups)
    assert communications(back, list(loaded.traces)) == communications(workload, traces)
    assert facts.communications == sum(len(program.communications) for program in workload.programs)
    assert loaded.files.prefix == "mine"


def small(path: Path) -> Path:
    """Ranks 0 and 1 do the same, rank 2 does not."""
    pair = [node(4), coll(6, "all_reduce", 64, deps=[4], pg="tp", group_ranks=(0, 1)), coll(9, "barrier", 0)]
    traces = [rank_trace(0, pair), rank_trace(1, pair), rank_trace(2, [coll(1, "barrier", 0)])]
    write_master(path, build_workload(traces), traces, name="x")
    return path


def test_ranks_that_do_the_same_are_stored_once(tmp_path: Path) -> None:
    table = pq.read_table(small(tmp_path / "x.parquet"))
    assert table.num_rows == 3
    rows = table.select(["program", "number", "kind", "size_bytes", "waits_for", "node_id", "name"]).to_pylist()
    assert [tuple(row.values()) for row in rows] == [
        (0, 0, "all_reduce", 64, [], [6], ["node 6"]),
        (0, 1, "barrier", 0, [], [9], ["node 9"]),
        (1, 0, "barrier", 0, [], [1], ["node 1"]),
    ]
    described = json.loads(table.schema.metadata[METADATA_KEY])
    assert described["programs"] == [[0, 1], [2]]
    assert described["groups"] == [{"name": "", "ranks": [0, 1, 2]}, {"name": "tp", "ranks": [0, 1]}]


def test_what_differs_between_ranks_has_a_value_for_each(tmp_path: Path) -> None:
    traces = [rank_trace(0, [send(3, 1, 5), recv(4, 1, 5)]), rank_trace(1, [send(8, 0, 5), recv(9, 0, 5)])]
    write_master(tmp_path / "x.parquet", build_workload(traces), traces, name="x")
    rows = pq.read_table(tmp_path / "x.parquet").to_pylist()
    assert [(row["peer"], row["node_id"], row["tag"]) for row in rows] == [([1, 0], [3, 8], [0]), ([1, 0], [4, 9], [0])]
    second = list(read_master(tmp_path / "x.parquet").streams().nodes(1))
    assert [(one.peer, one.attributes) for one in second] == [
        (0, {"charkha.source_id": 8}),
        (0, {"charkha.source_id": 9}),
    ]


def rewritten(
    path: Path,
    *,
    row: Callable[[dict[str, Any]], None] = lambda _: None,
    entry: Callable[[dict[str, Any]], None] = lambda _: None,
) -> Path:
    """The file with its first row or its metadata changed, and a digest that fits."""
    table = pq.read_table(path)
    rows, described = table.to_pylist(), json.loads(table.schema.metadata[METADATA_KEY])
    row(rows[0])
    described.pop("sha256")
    entry(described)
    described["sha256"] = content_digest(described, rows)
    schema = SCHEMA.with_metadata({METADATA_KEY: json.dumps(described).encode()})
    pq.write_table(pa.Table.from_pylist(rows, schema), path)
    return path


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"row": lambda row: row.update(kind="all_redcue")}, "row 0 of program 0: has the unknown kind 'all_redcue'"),
        ({"row": lambda row: row.update(number=1)}, "has number 1: rows are missing or not in order"),
        ({"row": lambda row: row.update(waits_for=[0])}, r"waits for \[0\], which are not earlier"),
        ({"row": lambda row: row.update(node_id=[1, 2, 3])}, "has 3 values of node_id for 2 ranks"),
        ({"row": lambda row: row.update(group=[9])}, "names a process group that the metadata lacks"),
        ({"row": lambda row: row.update(size_bytes=None)}, "has no size"),
        ({"row": lambda row: row.update(name=[None])}, "lacks a value of name"),
        ({"row": lambda row: row.update(duration_micros=[-1])}, "has a negative time"),
        ({"row": lambda row: row.update(send_splits=[[-1, 2]])}, "has a split that cannot be a size"),
        ({"row": lambda row: row.update(kind="send", peer=[1 << 31 - 1], tag=[1 << 40])}, "more than 32 bits"),
        ({"row": lambda row: row.update(program=7)}, "has rows of program 7"),
        ({"entry": lambda entry: entry.update(programs=[[0, 1], [3]])}, "do not have the ranks 0 … n-1 once each"),
        ({"entry": lambda entry: entry.update(name="../../etc/x")}, "an impossible file name"),
        (
            {"entry": lambda entry: entry.update(version=2)},
            "is a master file of version 2; this Charkha reads version 1",
        ),
        ({"entry": lambda entry: entry.update(groups=5)}, "with damaged metadata"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, change: dict[str, Any], problem: str) -> None:
    path = rewritten(small(tmp_path / "x.parquet"), **change)
    with pytest.raises(TraceError, match=problem):
        read_master(path)


def test_a_changed_value_is_noticed(tmp_path: Path) -> None:
    path = small(tmp_path / "x.parquet")
    table = pq.read_table(path)
    pq.write_table(table.set_column(3, "size_bytes", pa.array([65, 0, 0], pa.int64())), path)
    with pytest.raises(TraceError, match="its content does not match the SHA-256 in its metadata"):
        read_master(path)


def test_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.parquet"
    pq.write_table(pa.table({"x": [1]}), path)
    assert is_master(path)
    with pytest.raises(TraceError, match="is a Parquet file but not a master file"):
        read_master(path)
    path.write_bytes(b"PAR1 and no more")
    with pytest.raises(TraceError, match="is not a Parquet file, or is damaged"):
        read_master(path)
    path.write_bytes(b"PAR")
    assert not is_master(path)
    assert not is_master(tmp_path)


def test_the_number_of_ranks_can_be_asked_for(tmp_path: Path) -> None:
    assert read_master(small(tmp_path / "x.parquet"), ranks=3).ranks == 3
    with pytest.raises(TraceError, match="has 3 ranks, --ranks asks for 4"):
        read_master(tmp_path / "x.parquet", ranks=4)
