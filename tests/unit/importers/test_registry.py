from __future__ import annotations

import json
import os
import pickle
from pathlib import Path

import pytest

from emulator.errors import InputError, TraceError
from emulator.importers.losses import Fate
from emulator.importers.registry import find_importer, import_trace, importer_named
from emulator.wire.trace.files import find_trace
from emulator.wire.trace.master.read import is_master
from tests.support.import_sources import RANKS, recorder_dump


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
