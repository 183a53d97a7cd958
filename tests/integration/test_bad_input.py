"""Bad input gives exit code 2 and one line that names the problem, before anything is started or written."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from emulator._pb import et_pb2
from emulator.cli.main import main
from tests.support.command import refused, succeed
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


def _send(node_id: int, **numbers: int) -> et_pb2.Node:
    node = et_pb2.Node(id=node_id, name="message", type=et_pb2.COMM_SEND_NODE)
    values = {"comm_size": 1000, "comm_tag": 0} | numbers
    node.attr.extend(attribute(name, int64_val=value) for name, value in values.items())
    return node


def _grouped(node_id: int, group: str, **fields: object) -> et_pb2.Node:
    return collective(node_id, attribute("pg_name", string_val=group), **fields)


GOOD = [compute(1, duration_micros=10), collective(2, data_deps=[1])]
GROUPS = '{"1": [0, 1], "2": [0, 1]}'
TOPOLOGY = "name: t\nhosts:\n  - name: h\n    {}\n"

CASES = {
    "empty file": Bad("trace.1.et, offset 0: the file is empty", [GOOD, b""]),
    "a length of 2 GiB": Bad("offset", [GOOD, frame(b"") + b"\xff\xff\xff\xff\x07" + bytes(1000)]),
    "dependency missing": Bad("trace.1.et, node 2", [GOOD, [compute(1), collective(2, data_deps=[7])]]),
    "duplicate id": Bad("node 1: 1 nodes have an id", [GOOD, [*GOOD, compute(1)]]),
    "peer absent": Bad("comm_dst 5", [[*GOOD, _send(3, comm_dst=5)], GOOD]),
    "cross-rank deadlock": Bad(
        "wait for each other",
        [[_grouped(1, "1"), _grouped(2, "2", data_deps=[1])], [_grouped(1, "1", data_deps=[2]), _grouped(2, "2")]],
        files={"comm_group.json": GROUPS},
    ),
    "topology too small": Bad(
        "room for only 1: add hosts",
        [GOOD, GOOD],
        ["--topology", "t"],
        {"t": TOPOLOGY.format("addresses: [127.1.0.1]")},
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
def test_one_line_and_nothing_else(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    case = CASES[name]
    _write_ranks(tmp_path / "trace", case.ranks)
    for file, text in case.files.items():
        (tmp_path / ("trace" if file == "comm_group.json" else ".") / file).write_text(text)
    before = sorted(tmp_path.rglob("*"))
    assert case.problem in refused("run", "trace", *FAST, *case.options)
    assert sorted(tmp_path.rglob("*")) == before


def test_the_good_trace_that_all_cases_alter_is_played(tmp_path: Path) -> None:
    _write_ranks(tmp_path / "trace", [GOOD, GOOD])
    succeed("run", "trace", *FAST, "--out", "run", cwd=tmp_path, quiet=True)


@pytest.mark.parametrize("what", ["pipe", "device", "folder", "nothing"])
def test_a_rank_that_is_not_a_file_is_refused(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    assert "trace" in refused("run", "trace", *FAST)


def test_escapes_in_a_name_do_not_reach_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for rank in range(2):
        write(tmp_path / f"t.{rank}.et", [collective(1, attribute("pg_name", string_val="\x1b[2Jgone"))])

    assert main(["trace", "check", str(tmp_path)]) == 2
    assert "\x1b" not in (line := capsys.readouterr().err)
    assert r"\x1b[2Jgone" in line
