from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from emulator.errors import InputError
from emulator.trace.files.convert import convert_trace
from emulator.trace.files.load import load_trace
from tests.support.et_files import read_et
from tests.support.trace_files import collective, compute, trace_bytes

CONTENT = [trace_bytes([compute(1), collective(2)]), trace_bytes([compute(3)])]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    folder.mkdir()
    for rank, content in enumerate(CONTENT):
        (folder / f"job.{rank}.et.gz").write_bytes(gzip.compress(content))
    return folder


def test_compressed_ranks_become_plain_files_with_the_bytes_of_their_records(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "plain"
    paths = convert_trace(load_trace(source), target)
    assert paths == [target / "job.0.et", target / "job.1.et"]
    assert [path.read_bytes() for path in paths] == CONTENT


def test_the_group_file_comes_along_under_the_name_that_is_found(source: Path, tmp_path: Path) -> None:
    groups = '{"1": [0,  1]}'
    (source / "job.json").write_text(groups)
    paths = convert_trace(load_trace(source), tmp_path / "plain")
    assert paths[-1].name == "comm_group.json"
    assert paths[-1].read_text() == groups
    assert load_trace(tmp_path / "plain").groups == {"1": (0, 1)}


def test_an_empty_group_file_does_not_come_along(source: Path, tmp_path: Path) -> None:
    (source / "job.json").write_text("{}")
    assert len(convert_trace(load_trace(source), tmp_path / "plain")) == 2


def test_json_becomes_protobuf(tmp_path: Path) -> None:
    path = tmp_path / "graph.json"
    path.write_text('{"workload_graph": [{"id": 4, "type": "COMP_NODE", "runtime": 9}]}')
    [converted] = convert_trace(load_trace(path, ranks=1), tmp_path / "plain")
    assert converted.name == "graph.0.et"
    [node] = read_et(converted)[1]
    assert (node.id, node.duration_micros) == (4, 9)


def test_ranks_without_a_prefix_are_named_trace(source: Path, tmp_path: Path) -> None:
    for rank in range(2):
        (source / f"job.{rank}.et.gz").rename(source / f"{rank}.et.gz")
    assert [path.name for path in convert_trace(load_trace(source), tmp_path / "plain")] == ["trace.0.et", "trace.1.et"]


def test_a_folder_with_files_is_left_alone(source: Path) -> None:
    with pytest.raises(InputError, match="not empty"):
        convert_trace(load_trace(source), source)
    assert sorted(path.name for path in source.iterdir()) == ["job.0.et.gz", "job.1.et.gz"]
