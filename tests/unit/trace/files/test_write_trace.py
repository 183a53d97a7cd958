from __future__ import annotations

from pathlib import Path

import pytest

from emulator._pb import et_pb2
from emulator.errors import HostError
from emulator.trace.files.rewrite import write_trace
from tests.support.trace_files import UNPACK, parse_trace

NODES = [
    et_pb2.Node(id=index, name=f"layer {index}" * 30, type=et_pb2.COMP_NODE, duration_micros=index)
    for index in range(5)
]


@pytest.mark.parametrize("suffix", UNPACK)
def test_a_written_trace_has_metadata_then_nodes(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"t.0.et{suffix}"
    count = write_trace(path, iter(NODES), attributes={"schema": "1.1.1-chakra.0.0.4", "layers": 4})
    metadata, nodes = parse_trace(UNPACK[suffix](path.read_bytes()))
    assert count == 5
    assert nodes == NODES
    assert metadata.version
    assert [(a.name, a.string_val, a.uint64_val) for a in metadata.attr] == [
        ("schema", "1.1.1-chakra.0.0.4", 0),
        ("layers", "", 4),
    ]


@pytest.mark.parametrize("suffix", UNPACK)
def test_the_same_trace_is_written_as_the_same_bytes(tmp_path: Path, suffix: str) -> None:
    first, second = tmp_path / f"a.0.et{suffix}", tmp_path / f"b.0.et{suffix}"
    for path in (first, second):
        write_trace(path, NODES, attributes={})
    assert first.read_bytes() == second.read_bytes()


def test_a_generator_that_fails_leaves_no_file(tmp_path: Path) -> None:
    def failing():  # type: ignore[no-untyped-def]
        yield NODES[0]
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_trace(tmp_path / "t.0.et", failing(), attributes={})
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(HostError, match=r"cannot write .*absent/t\.0\.et: No such file"):
        write_trace(tmp_path / "absent" / "t.0.et", NODES, attributes={})
