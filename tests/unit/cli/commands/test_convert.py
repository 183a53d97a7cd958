"""`charkha trace convert` as a user meets it, in this process."""

import gzip
import json
import resource
from pathlib import Path

import pytest

from emulator.cli.main import main
from emulator.trace.files.load import load_trace
from tests.support.command import refused
from tests.support.limits import limited
from tests.support.trace_files import collective, compute, parse_trace, trace_bytes

NODES = [compute(1, duration_micros=5), collective(2, data_deps=[1])]
GRAPH = {
    "workload_graph": [
        {"Id": 1, "NodeType": 4, "runtime": 5, "Name": "compute"},
        {"Id": 2, "NodeType": 7, "data_deps": [1], "comm_type": 0, "comm_size": 64, "Name": "reduce"},
    ]
}


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """A trace of two ranks, compressed, and its groups."""
    folder = tmp_path / "mixed"
    folder.mkdir()
    (folder / "a.0.et").write_bytes(gzip.compress(trace_bytes(NODES)))
    (folder / "a.1.et").write_bytes(trace_bytes(NODES))
    (folder / "comm_group.json").write_text('{"1": [0, 1]}')
    return folder


def test_compressed_files_become_plain_ones_with_the_same_bytes(
    mixed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "made"
    assert main(["trace", "convert", str(mixed), str(target)]) == 0
    assert capsys.readouterr().out == f"4 nodes of 2 ranks\n{target}: a.0.et to a.1.et, comm_group.json\n"
    assert [(target / f"a.{rank}.et").read_bytes() for rank in range(2)] == [trace_bytes(NODES)] * 2
    assert load_trace(target).groups == {"1": (0, 1)}


def test_json_becomes_protobuf(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "graph.json"
    source.write_text(json.dumps(GRAPH))
    assert main(["trace", "convert", str(source), str(tmp_path / "made"), "--ranks", "1", "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made == {"ranks": 1, "nodes": 2, "files": [str(tmp_path / "made" / "graph.0.et")]}
    _, nodes = parse_trace(Path(made["files"][0]).read_bytes())
    assert [(node.id, list(node.data_deps)) for node in nodes] == [(1, []), (2, [1])]
    assert (nodes[0].duration_micros, {one.name for one in nodes[1].attr}) == (5, {"comm_type", "comm_size"})


def test_what_cannot_be_converted_is_one_line(mixed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kineto = tmp_path / "kineto.json"
    kineto.write_text('{"traceEvents": []}')
    for words, problem in (
        ([kineto, tmp_path / "made", "--ranks", 1], "records no event on a CPU or a device"),
        ([mixed, mixed], "is not empty"),
        ([mixed, tmp_path / ("x" * 300)], "File name too long"),
        ([tmp_path / "none", tmp_path / "made"], "no such file or folder"),
    ):
        assert main(["trace", "convert", *map(str, words)]) == 2
        streams = capsys.readouterr()
        assert problem in streams.err
        assert (streams.out, streams.err.count("\n")) == ("", 1)
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("was_there", [False, True])
def test_where_room_runs_out_no_rank_is_left_that_would_pass_for_the_whole_trace(
    mixed: Path, tmp_path: Path, was_there: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    (mixed / "a.1.et").write_bytes(trace_bytes([*NODES, *(compute(number) for number in range(3, 10_000))]))
    target = tmp_path / "made"
    if was_there:
        target.mkdir()
    with limited(resource.RLIMIT_FSIZE, 10_000):
        assert main(["trace", "convert", str(mixed), str(target)]) == 3
    said = capsys.readouterr().err
    assert (said.count("\n"), "cannot write" in said, "a.1.et" in said) == (1, True, True)
    assert target.exists() == was_there
    assert main(["trace", "convert", str(mixed), str(target)]) == 0


def test_a_master_file_and_back(mixed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    master, back = tmp_path / "x.parquet", tmp_path / "back"
    assert main(["trace", "convert", "--to", "master", str(mixed), str(master)]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first == "2 communications of 2 ranks, stored as 1 of 1 distinct program; compute is omitted"
    assert second.startswith(f"{master}: ")
    assert main(["trace", "check", str(master), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["communication_nodes"] == {"all_reduce": 2}
    assert main(["trace", "convert", str(master), str(back)]) == 0
    assert capsys.readouterr().out == f"2 nodes of 2 ranks\n{back}: a.0.et to a.1.et\n"
    assert main(["trace", "diff", str(master), str(back), "--gate"]) == 0


def test_a_master_file_is_as_json_and_refused_where_options_do_not_fit(
    mixed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    master = tmp_path / "x.parquet"
    assert main(["trace", "convert", "--to", "master", str(mixed), str(master), "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made.pop("size_bytes") == master.stat().st_size
    assert made == {"ranks": 2, "communications": 2, "programs": 1, "rows": 1, "files": [str(master)]}
    assert "it exists; choose a different name" in refused("trace", "convert", "--to", "master", mixed, master)
    assert "not for a master file" in refused("trace", "convert", master, tmp_path / "y", "--strict")
    assert "--ranks asks for 3" in refused("trace", "convert", master, tmp_path / "y", "--ranks", 3)
    assert "are for --to et" in refused("trace", "convert", mixed, tmp_path / "y", "--to", "master", "--strict")


def test_a_trace_that_cannot_be_played_is_not_written(tmp_path: Path) -> None:
    """One rank reduces 64 bytes, the other none: `check` says so too."""
    source, target = tmp_path / "source", tmp_path / "made"
    source.mkdir()
    for rank in range(2):
        (source / f"a.{rank}.et").write_bytes(trace_bytes(NODES[: 2 - rank]))
    said = refused("trace", "convert", source, target)
    assert said == refused("trace", "check", source)
    assert not target.exists()


def test_lenient_writes_what_it_would_play(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A dependency on a node that is not there, and a cycle with a control dependency in it."""
    source, target = tmp_path / "source", tmp_path / "made"
    source.mkdir()
    nodes = [
        compute(1, ctrl_deps=[3, 77], duration_micros=5),
        compute(2, data_deps=[1, 88]),
        collective(3, data_deps=[2]),
    ]
    for rank in range(2):
        (source / f"a.{rank}.et").write_bytes(trace_bytes(nodes))
    assert "give --lenient to drop them" in refused("trace", "convert", source, target)
    assert main(["trace", "convert", str(source), str(target), "--lenient"]) == 0
    assert main(["trace", "check", str(target)]) == 0
    _, made = parse_trace((target / "a.1.et").read_bytes())
    assert [(list(one.ctrl_deps), list(one.data_deps)) for one in made] == [([], []), ([], [1]), ([], [2])]
    assert made[2] == nodes[2]
    capsys.readouterr()
    master = tmp_path / "x.parquet"
    assert main(["trace", "convert", "--to", "master", str(source), str(master), "--lenient"]) == 0
    capsys.readouterr()
    assert "--lenient, --groups and --from are not for a master" in refused(
        "trace", "convert", master, tmp_path / "y", "--lenient"
    )
