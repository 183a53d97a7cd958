"""Bad input gives exit code 2 and one line that names the problem, before anything is started or written."""

from __future__ import annotations

import json
import os
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from emulator.cli.main import main
from emulator.wire._pb import et_pb2
from tests.support.command import EXAMPLE, charkha, refused
from tests.support.shared_traces import require_shared
from tests.support.trace_files import attribute, collective, compute, frame, write

FAST = ("--iterations", "1", "--warmup", "0", "--compute", "skip")
Nodes = Sequence[et_pb2.Node]


@dataclass(frozen=True)
class Bad:
    """A trace of two ranks (nodes or raw bytes), options, and a part of the error line."""

    problem: str
    ranks: Sequence[Nodes | bytes] = ()
    options: Sequence[str] = ()
    files: dict[str, str] = field(default_factory=dict)


def _message(node_id: int, kind: int, **numbers: int) -> et_pb2.Node:
    node = et_pb2.Node(id=node_id, name="message", type=kind)  # type: ignore[arg-type]
    values = {"comm_size": 1000, "comm_tag": 0} | numbers
    node.attr.extend(attribute(name, int64_val=value) for name, value in values.items())
    return node


def _sized(node_id: int, size: int) -> et_pb2.Node:
    node = collective(node_id)
    node.attr[1].int64_val = size
    return node


def _typed(node_id: int, kind: int) -> et_pb2.Node:
    node = collective(node_id)
    node.attr[0].int64_val = kind
    return node


def _grouped(node_id: int, group: str, **fields: object) -> et_pb2.Node:
    return collective(node_id, attribute("pg_name", string_val=group), **fields)


GOOD = [compute(1, duration_micros=10), collective(2, data_deps=[1])]
SEND, RECV = et_pb2.COMM_SEND_NODE, et_pb2.COMM_RECV_NODE
GROUPS = '{"1": [0, 1], "2": [0, 1]}'
TOPOLOGY = "name: t\nhosts:\n  - name: h\n    {}\n"
_random = random.Random(7)

CASES = {
    "empty file": Bad("trace.1.et, offset 0: the file is empty", [GOOD, b""]),
    "random bytes": Bad("trace.1.et", [GOOD, _random.randbytes(5000)]),
    "text": Bad("trace.1.et", [GOOD, b"this is not a trace at all\n" * 50]),
    "a length of 2 GiB": Bad("offset", [GOOD, frame(b"") + b"\xff\xff\xff\xff\x07" + bytes(1000)]),
    "rank missing": Bad("rank 0 is missing (found: 1)", [b"", GOOD]),
    "one rank alone": Bad("pass --ranks 1", [GOOD]),
    "--ranks disagrees": Bad("rank 2-3 is missing", [GOOD, GOOD], ["--ranks", "4"]),
    "--ranks smaller": Bad("has 2 ranks, --ranks asks for 1", [GOOD, GOOD], ["--ranks", "1"]),
    "dependency missing": Bad("trace.1.et, node 2", [GOOD, [compute(1), collective(2, data_deps=[7])]]),
    "duplicate id": Bad("node 1: 1 nodes have an id", [GOOD, [*GOOD, compute(1)]]),
    "kinds disagree": Bad("disagrees with rank 0 node 2", [GOOD, [compute(1), _typed(2, et_pb2.ALL_GATHER)]]),
    "sizes disagree": Bad("1000 bytes here, all_reduce of 1048576 bytes there", [GOOD, [compute(1), _sized(2, 1000)]]),
    "partner missing": Bad("rank 1 has only 1 of that group", [[*GOOD, collective(3)], GOOD]),
    "send without receive": Bad("0 such receives", [[*GOOD, _message(3, SEND, comm_dst=1)], GOOD]),
    "receive without send": Bad("0 such sends", [GOOD, [*GOOD, _message(3, RECV, comm_src=0)]]),
    "peer absent": Bad("comm_dst 5", [[*GOOD, _message(3, SEND, comm_dst=5)], GOOD]),
    "cycle": Bad("trace.0.et", [[compute(1, data_deps=[3]), collective(2), compute(3, data_deps=[1])], GOOD]),
    "cross-rank deadlock": Bad(
        "wait for each other",
        [
            [_grouped(1, "1"), _grouped(2, "2", data_deps=[1])],
            [_grouped(1, "1", data_deps=[2]), _grouped(2, "2")],
        ],
        files={"comm_group.json": GROUPS},
    ),
    "group unknown": Bad("process group '9', which nothing defines", [[_grouped(1, "9")]] * 2),
    "group with an absent rank": Bad(
        "names rank 7, which is absent", [[_grouped(1, "1")]] * 2, files={"comm_group.json": '{"1": [0, 1, 7]}'}
    ),
    "group without its rank": Bad(
        "not the node's own rank 1", [[_grouped(1, "1")]] * 2, files={"comm_group.json": '{"1": [0]}'}
    ),
    "group file not JSON": Bad("is not JSON", [GOOD, GOOD], ["--groups", "g"], {"g": "ranks: 0, 1"}),
    "group file not an object": Bad("one JSON object", [GOOD, GOOD], ["--groups", "g"], {"g": "[[0, 1]]"}),
    "group file absent": Bad("nowhere.json", [GOOD, GOOD], ["--groups", "nowhere.json"]),
    "negative size": Bad("comm_size -5", [[_sized(1, -5)]] * 2),
    "absurd size": Bad(f"comm_size {1 << 60}", [[_sized(1, 1 << 60)]] * 2),
    "absurd scaled size": Bad("comm_size", [GOOD, GOOD], ["--element-bytes", "2000000000"]),
    "absurd duration": Bad("node 1", [[compute(1, duration_micros=1 << 50), *GOOD[1:]], GOOD]),
    "unknown kind": Bad("comm_type 77", [[_typed(1, 77)]] * 2),
    "unknown algorithm": Bad("no algorithm 'warp'", [GOOD, GOOD], ["--algorithm", "all_reduce=warp"]),
    "unknown collective": Bad("no collective 'all_warp'", [GOOD, GOOD], ["--algorithm", "all_warp=ring"]),
    "topology too small": Bad(
        "room for 1: add hosts",
        [GOOD, GOOD],
        ["--topology", "t"],
        {"t": TOPOLOGY.format("addresses: [127.1.0.1]")},
    ),
    "topology not YAML": Bad("t:", [GOOD, GOOD], ["--topology", "t"], {"t": "hosts: [}"}),
    "topology not a mapping": Bad("t:", [GOOD, GOOD], ["--topology", "t"], {"t": "- a\n- b\n"}),
    "topology empty": Bad("t", [GOOD, GOOD], ["--topology", "t"], {"t": ""}),
    "topology public": Bad(
        "8.8.8.8 is outside", [GOOD, GOOD], ["--topology", "t"], {"t": TOPOLOGY.format("address: 8.8.8.8")}
    ),
    "topology absent": Bad("nowhere.yaml", [GOOD, GOOD], ["--topology", "nowhere.yaml"]),
    "--allow-network": Bad(
        "write a prefix",
        [GOOD, GOOD],
        ["--topology", "t", "--allow-network", "x"],
        {"t": TOPOLOGY.format("address: 127.0.0.1")},
    ),
}


def _write_ranks(folder: Path, ranks: Sequence[Nodes | bytes]) -> None:
    folder.mkdir()
    for rank, content in enumerate(ranks):
        path = folder / f"trace.{rank}.et"
        if isinstance(content, bytes):
            if content or rank:
                path.write_bytes(content)
        else:
            write(path, content)


@pytest.mark.parametrize("name", CASES)
def test_one_line_and_nothing_else(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    case = CASES[name]
    _write_ranks(tmp_path / "trace", case.ranks)
    for file, text in case.files.items():
        (tmp_path / ("trace" if file == "comm_group.json" else ".") / file).write_text(text)
    before = sorted(tmp_path.rglob("*"))
    assert case.problem in refused("run", "trace", *FAST, *case.options, capsys=capsys)
    assert sorted(tmp_path.rglob("*")) == before


def test_the_good_trace_that_all_cases_alter_is_played(tmp_path: Path) -> None:
    _write_ranks(tmp_path / "trace", [GOOD, GOOD])
    finished = charkha("run", "trace", *FAST, "--out", "run", cwd=tmp_path)
    assert (finished.code, finished.stderr) == (0, "")


@pytest.mark.parametrize(
    "options",
    [
        ["--iterations", "0"],
        ["--iterations", "99999999999"],
        ["--warmup", "-1"],
        ["--agents", "none"],
        ["--scale-bytes", "0"],
        ["--scale-bytes", "1e999999999"],
        ["--scale-bytes", "nan"],
        ["--compute", "1e400"],
        ["--compute", "1/0"],
        ["--timeout", "inf"],
        ["--message-bytes", "0"],
        ["--seed", str(1 << 64)],
        ["--transport", "pigeon"],
        ["--credits", "maybe"],
    ],
    ids=" ".join,
)
def test_option_values_out_of_range_are_refused(options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    error = refused("run", EXAMPLE, *options, capsys=capsys)
    assert re.search(rf"argument (-\w/)?{options[0]}:", error)


def _boundaries(data: bytes) -> set[int]:
    at, found = 0, set[int]()
    while at < len(data):
        found.add(at)
        size = shift = 0
        while True:
            byte = data[at]
            at += 1
            size |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        at += size
    return found


def test_a_file_cut_short_within_a_record_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    _write_ranks(tmp_path / "trace", [GOOD, GOOD])
    path = tmp_path / "trace" / "trace.1.et"
    data = path.read_bytes()
    boundaries = _boundaries(data)
    for size in range(1, len(data)):
        if size not in boundaries:
            path.write_bytes(data[:size])
            line = refused("run", "trace", *FAST, capsys=capsys)
            assert re.search(r"trace\.1\.et, (offset|node) \d+: ", line), (size, line)


@pytest.mark.parametrize(
    ("keep", "problem"), [(2, "rank 1 has only 0 of that group"), (1, "rank 1 has only 0 of that group")]
)
def test_a_file_cut_short_between_records_lacks_what_others_need(
    keep: int, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    _write_ranks(tmp_path / "trace", [GOOD, GOOD])
    path = tmp_path / "trace" / "trace.1.et"
    data = path.read_bytes()
    path.write_bytes(data[: sorted(_boundaries(data))[keep]])
    assert problem in refused("run", "trace", *FAST, capsys=capsys)


def test_a_dependency_that_was_cut_off_is_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    _write_ranks(tmp_path / "trace", [GOOD, [collective(2, data_deps=[1]), compute(1)]])
    path = tmp_path / "trace" / "trace.1.et"
    data = path.read_bytes()
    path.write_bytes(data[: sorted(_boundaries(data))[2]])
    assert "trace.1.et, node 2" in refused("run", "trace", *FAST, capsys=capsys)


@pytest.mark.parametrize(
    ("parts", "problem"),
    [
        (("legacy-chakra-old", "one_comm_coll_node_allreduce.0.et"), "wire format from before October 2023"),
        (("legacy-chakra-old", "one_comp_node.0.et"), "wire format from before October 2023"),
        (("param-et_replay", "linear_et.json.gz"), "records no communication, and it has no times"),
        (("param-et_replay", "1.1.0-chakra.0.0.4_resnet_2gpu_et.json.gz"), "of a job of 2 ranks, --ranks asks for 1"),
        (("mlcommons-chakra-tests", "chakra.0.et"), "chakra.0.et"),
    ],
)
def test_other_formats_are_refused_by_name(
    parts: tuple[str, ...],
    problem: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    line = refused("run", str(require_shared("traces", *parts)), "--ranks", "1", *FAST, capsys=capsys)
    assert problem in line


@pytest.mark.parametrize("what", ["pipe", "device", "folder", "nothing"])
def test_a_rank_that_is_not_a_file_is_refused(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    _write_ranks(tmp_path / "trace", [GOOD])
    path = tmp_path / "trace" / "trace.1.et"
    make: dict[str, Callable[[], object]] = {
        "pipe": lambda: os.mkfifo(path),
        "device": lambda: path.symlink_to("/dev/zero"),
        "folder": path.mkdir,
        "nothing": lambda: path.symlink_to("nowhere"),
    }
    make[what]()
    assert "trace" in refused("run", "trace", *FAST, capsys=capsys)


def test_line_ends_in_a_name_stay_within_the_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert "no such file" in refused("run", "two\nlines", *FAST, capsys=capsys)


def test_escapes_in_a_name_do_not_reach_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for rank in range(2):
        write(tmp_path / f"t.{rank}.et", [collective(1, attribute("pg_name", string_val="\x1b[2Jgone"))])

    assert main(["check", str(tmp_path)]) == 2
    assert "\x1b" not in (line := capsys.readouterr().err)
    assert r"\x1b[2Jgone" in line


def test_json_that_is_not_a_trace_names_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.0.json").write_text(json.dumps({"version": "1"}) + '\n{"id": "x"}\n')
    assert "line 2" in refused("run", "t.0.json", "--ranks", "1", *FAST, capsys=capsys)
