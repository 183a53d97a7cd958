"""A run folder that Charkha 0.1.0 wrote, of a lab with a firmware that loses frames, reads back in full."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from emulator.results.run_folder.reader import read_run
from emulator.results.run_folder.schema import RunTable
from emulator.results.statistics.samples.measured_rows import to_ints
from emulator.results.statistics.summary import summarise
from emulator.trace.files.load import load_trace
from emulator.trace.meaning.workload import build_workload
from emulator.views.as_json import summary_to_json
from emulator.views.html.facts import read_facts

FOLDER = Path(__file__).parents[3] / "data" / "run-0.1.0"
RUN = read_run(FOLDER)


NEWER = {
    RunTable.SAMPLES: [
        "read_delay_ns",
        "core_wait_ns",
        "remaining_ideal_ns",
        "network_ns",
        "network_crossings",
        "stalled_ns",
        "port_ns",
    ],
    RunTable.FLOWS: ["medium", "copies"],
}
"""Columns of later versions."""


@pytest.mark.parametrize("part", [part for part in RunTable if (FOLDER / part.file_name).exists()])
def test_every_table_is_read_as_it_stands(part: RunTable) -> None:
    written = pq.read_table(FOLDER / part.file_name)
    if part is RunTable.SAMPLES:
        written = written.drop_columns("retransmits")  # of that version; nothing ever filled it
    assert written.num_rows > 0
    read = RUN.table(part)
    newer = [name for name in read.column_names if name not in written.column_names]
    assert newer == NEWER.get(part, [])
    assert all(read[name].null_count == read.num_rows for name in newer)
    read = read.drop_columns(newer)
    assert read.column_names == written.column_names
    assert read.to_pylist() == written.to_pylist()


def test_tables_of_later_versions_read_as_empty() -> None:
    later = [part for part in RunTable if not (FOLDER / part.file_name).exists()]
    assert RunTable.FLOW_EVENTS in later
    assert all(RUN.table(part).num_rows == 0 for part in later)


def missing(wanted: Any, found: Any, at: str = "") -> list[str]:
    """Where a later document differs from an earlier one, apart from keys that were added."""
    if isinstance(wanted, dict):
        return [one for key in wanted for one in missing(wanted[key], found.get(key), f"{at}.{key}")]
    if isinstance(wanted, list) and isinstance(found, list) and len(wanted) == len(found):
        return [one for n, item in enumerate(wanted) for one in missing(item, found[n], f"{at}[{n}]")]
    return [] if wanted == found else [f"{at}: {wanted} became {found}"]


def test_its_summary_stays_what_it_was() -> None:
    wanted = json.loads((FOLDER.parent / "run-0.1.0.summary.json").read_text())
    assert missing(wanted, json.loads(json.dumps(summary_to_json(summarise(RUN))))) == []
    assert (wanted["totals"]["counters"]["retransmits"], wanted["totals"]["dut"]) == (193, {"profile_drops": 15})


def test_its_facts_name_the_device_and_its_firmware() -> None:
    manifest = RUN.manifest
    assert (manifest.dut["model"], manifest.dut["firmware"], manifest.dut["profile"]["name"]) == (
        "bridge",
        "fw-b",
        "fw-b",
    )
    assert manifest.topology["lab"]
    assert [host.ranks for host in manifest.hosts] == [2, 2]
    assert read_facts(RUN)


def test_spans_of_compute_add_up_to_what_iterations_say() -> None:
    spans, iterations = RUN.table(RunTable.COMPUTE), RUN.table(RunTable.ITERATIONS)
    length = to_ints(spans["end_ns"]) - to_ints(spans["start_ns"])
    busy: dict[tuple[int, int], int] = {}
    for key, ns in zip(zip(to_ints(spans["iteration"]), to_ints(spans["rank"]), strict=True), length, strict=True):
        busy[key] = busy.get(key, 0) + int(ns)
    for row in iterations.to_pylist():
        assert busy[row["iteration"], row["rank"]] == row["compute_ns"]
    assert np.all(length > 0)


def test_its_measured_trace_can_be_played_again() -> None:
    loaded = load_trace(FOLDER / "trace")
    assert len(build_workload(loaded.traces, groups=loaded.groups).programs) == 4
