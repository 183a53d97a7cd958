from __future__ import annotations

import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest

from emulator.annexes.importers.losses import Fate
from emulator.annexes.importers.registry import find_importer, import_trace, importer_named
from emulator.errors import InputError, TraceError
from emulator.trace.files.files import find_trace
from emulator.trace.files.master.read import is_master
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
