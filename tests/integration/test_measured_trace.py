"""The measured trace is the input but for what was measured: compared field by field, and byte by byte elsewhere."""

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from emulator._pb import et_pb2
from tests.support.command import succeed
from tests.support.runs import MEASURED_ATTRIBUTES
from tests.support.trace_files import PACK, UNPACK, attribute, collective, compute, frame, parse_trace

ITERATIONS = 4
RANKS = 2
COMMUNICATIONS = 3
UNKNOWN_FIELD = b"\xa2\x06\x05hello"  # number 100, five bytes
GROUP_FILE = '{"7": [0, 1]}'
Samples = dict[tuple[int, int], list[dict[str, Any]]]


def _payloads(rank: int) -> list[bytes]:
    """Metadata and nodes of a rank: ids differ between ranks, some records have a field that no schema has."""
    base = 10 * (rank + 1)
    message = et_pb2.Node(id=base + 4, name="message", type=(et_pb2.COMM_SEND_NODE, et_pb2.COMM_RECV_NODE)[rank])
    values = {"comm_size": 5000, "comm_src": 0, "comm_dst": 1, "comm_tag": 3}
    message.attr.extend(attribute(name, int64_val=value) for name, value in values.items())
    odd = [attribute("my.notes", string_val="keep me"), attribute("charkha.old", int64_val=1)]
    messages = [
        et_pb2.GlobalMetadata(version="0.0.4", attr=[attribute("schema", string_val="mine")]),
        compute(base + 1, duration_micros=300, start_time_micros=5),
        collective(base + 2, *odd, data_deps=[base + 1], duration_micros=77, start_time_micros=9),
        compute(base + 3, ctrl_deps=[base + 2]),
        message,
        collective(base + 5, attribute("pg_name", string_val="7"), data_deps=[base + 3, base + 4]),
    ]
    encoded = [one.SerializeToString() for one in messages]
    return [payload + UNKNOWN_FIELD if index < 3 else payload for index, payload in enumerate(encoded)]


def _write_trace(folder: Path, suffix: str) -> None:
    folder.mkdir()
    for rank in range(RANKS):
        data = b"".join(map(frame, _payloads(rank)))
        (folder / f"mine.{rank}.et{suffix}").write_bytes(PACK[suffix](data))
    (folder / "mine.json").write_text(GROUP_FILE)


def _measure(folder: Path, trace: str, out: str) -> Path:
    options = ("--iterations", ITERATIONS, "--agents", 2, "--element-bytes", 1, "--out", out)
    succeed("run", trace, *options, cwd=folder, quiet=True)
    return folder / out / "trace"


@pytest.fixture(scope="module", params=["", ".gz", pytest.param(".zst", marks=pytest.mark.slow)])
def suffix(request: pytest.FixtureRequest) -> str:
    """Of the trace's files."""
    return str(request.param)


@pytest.fixture(scope="module")
def folder(suffix: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trace, its measured trace in run/, and that one measured again in again/."""
    folder = tmp_path_factory.mktemp("measured")
    _write_trace(folder / "trace", suffix)
    _measure(folder, "trace", "run")
    _measure(folder, "run/trace", "again")
    return folder


def _data(folder: Path, out: str, rank: int, suffix: str) -> bytes:
    return UNPACK[suffix]((folder / out / "trace" / f"mine.{rank}.et{suffix}").read_bytes())


def _samples(folder: Path, out: str) -> Samples:
    found: Samples = {}
    for row in pq.read_table(folder / out / "samples.parquet").to_pylist():
        if row["iteration"] >= 0:
            found.setdefault((row["rank"], row["node_id"]), []).append(row)
    return found


def _attributes(node: Any) -> dict[str, Any]:
    return {one.name: getattr(one, one.WhichOneof("value")) for one in node.attr}


def _own_ns(row: dict[str, Any]) -> int:
    return int(row["done_ns"] - row["post_ns"])


def _is_communication(node: et_pb2.Node) -> bool:
    return node.type >= et_pb2.COMM_SEND_NODE


def test_there_is_a_file_per_rank_and_the_groups(folder: Path, suffix: str) -> None:
    names = {path.name for path in (folder / "run" / "trace").iterdir()}
    assert names == {f"mine.{rank}.et{suffix}" for rank in range(RANKS)} | {"comm_group.json"}
    assert (folder / "run" / "trace" / "comm_group.json").read_text() == GROUP_FILE


@pytest.mark.parametrize("rank", range(RANKS))
def test_records_that_are_no_communication_keep_their_bytes(folder: Path, suffix: str, rank: int) -> None:
    payloads = _payloads(rank)
    for out in ("run", "again"):
        _, nodes = parse_trace(_data(folder, out, rank, suffix))
        assert [node.id for node in nodes] == [10 * (rank + 1) + 1 + index for index in range(5)]
        raw = _data(folder, out, rank, suffix)
        for node, payload in zip(nodes, payloads[1:], strict=True):
            assert _is_communication(node) or frame(payload) in raw
        assert raw.count(UNKNOWN_FIELD) == 3


@pytest.mark.parametrize("rank", range(RANKS))
def test_communication_nodes_differ_in_times_and_own_attributes_only(folder: Path, suffix: str, rank: int) -> None:
    _, nodes = parse_trace(_data(folder, "run", rank, suffix))
    _, before = parse_trace(b"".join(map(frame, _payloads(rank))))
    changed = 0
    for node, old in zip(nodes, before, strict=True):
        if not _is_communication(node):
            continue
        new_names = set(_attributes(node)) - set(_attributes(old))
        assert new_names == MEASURED_ATTRIBUTES
        kept = [one for one in node.attr if not one.name.startswith("charkha.")]
        del node.attr[:]
        node.attr.extend(kept)
        kept = [one for one in old.attr if not one.name.startswith("charkha.")]
        del old.attr[:]
        old.attr.extend(kept)
        node.start_time_micros, node.duration_micros = old.start_time_micros, old.duration_micros
        assert node.SerializeToString(deterministic=True) == old.SerializeToString(deterministic=True)
        changed += 1
    assert changed == COMMUNICATIONS


@pytest.mark.parametrize("rank", range(RANKS))
def test_times_are_the_lower_median_of_the_samples(folder: Path, suffix: str, rank: int) -> None:
    samples = _samples(folder, "run")
    starts: dict[int, int] = {}
    for row in pq.read_table(folder / "run" / "iterations.parquet").to_pylist():
        starts[row["iteration"]] = min(row["start_ns"], starts.get(row["iteration"], row["start_ns"]))
    for node in filter(_is_communication, parse_trace(_data(folder, "run", rank, suffix))[1]):
        rows = sorted(samples[rank, node.id], key=lambda row: row["iteration"])
        assert len(rows) == ITERATIONS
        middle = sorted(rows, key=_own_ns)[(ITERATIONS - 1) // 2]
        found = _attributes(node)
        assert list(found["charkha.samples_ns"].values) == [_own_ns(row) for row in rows]
        assert found["charkha.duration_ns"] == _own_ns(middle)
        assert node.duration_micros == max(1, (_own_ns(middle) + 500) // 1000)
        possible = [row["post_ns"] - starts[row["iteration"]] for row in rows if _own_ns(row) == _own_ns(middle)]
        assert found["charkha.start_ns"] in possible
        assert node.start_time_micros == (found["charkha.start_ns"] + 500) // 1000
        assert found["charkha.algorithm"] == middle["algorithm"]


def test_members_share_one_cct(folder: Path, suffix: str) -> None:
    samples = _samples(folder, "run")
    ranks = [list(filter(_is_communication, parse_trace(_data(folder, "run", rank, suffix))[1])) for rank in (0, 1)]
    for both in zip(*ranks, strict=True):
        rows = [samples[rank, node.id] for rank, node in enumerate(both)]
        if both[0].type == et_pb2.COMM_COLL_NODE:
            times = sorted(
                max(a["arrival_ns"], b["arrival_ns"]) - max(a["post_ns"], b["post_ns"])
                for a, b in zip(*rows, strict=True)
            )
        else:
            times = sorted(recv["arrival_ns"] - send["post_ns"] for send, recv in zip(*rows, strict=True))
        assert [_attributes(node)["charkha.cct_ns"] for node in both] == [times[(ITERATIONS - 1) // 2]] * 2


def test_numbers_are_unsigned(folder: Path, suffix: str) -> None:
    for node in filter(_is_communication, parse_trace(_data(folder, "run", 0, suffix))[1]):
        kinds = {one.name: one.WhichOneof("value") for one in node.attr}
        assert kinds["charkha.cct_ns"] == kinds["charkha.duration_ns"] == "uint64_val"
        assert kinds["charkha.samples_ns"] == "uint64_list"


def test_metadata_say_how_it_was_measured(folder: Path, suffix: str) -> None:
    metadata, _ = parse_trace(_data(folder, "again", 0, suffix))
    assert metadata.version == "0.0.4"
    assert _attributes(metadata) == {
        "schema": "mine",
        "charkha.time_base": "iteration_start",
        "charkha.scale_bytes": 1.0,
        "charkha.compute": "replay",
    }


@pytest.mark.parametrize("out", ["run", "again"])
def test_the_first_traced_duration_is_kept(folder: Path, suffix: str, out: str) -> None:
    nodes = {node.id: _attributes(node) for node in parse_trace(_data(folder, out, 0, suffix))[1]}
    assert nodes[12]["charkha.traced_duration_micros"] == 77
    assert nodes[15]["charkha.traced_duration_micros"] == 0
    assert nodes[12]["my.notes"] == "keep me"
    assert "charkha.old" not in nodes[12]


def test_a_second_measurement_replaces_the_first(folder: Path, suffix: str) -> None:
    first, second = (parse_trace(_data(folder, out, 0, suffix))[1] for out in ("run", "again"))
    for before, after in zip(first, second, strict=True):
        if _is_communication(after):
            assert _attributes(before)["charkha.run_id"] != _attributes(after)["charkha.run_id"]
            assert len(before.attr) == len(after.attr)
            assert len({one.name for one in after.attr}) == len(after.attr)
