import resource
import shutil
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import pytest

from emulator.control.observations import FlowCounters
from emulator.control.parameter import Parameter
from emulator.errors import AgentLost, HostError, InputError, RunAborted
from emulator.results.run_folder.manifest import (
    MANIFEST,
    PARTIAL_MANIFEST,
    Exclusion,
    HostFacts,
    Scaling,
    Trials,
    read_manifest,
)
from emulator.results.run_folder.places import is_being_written
from emulator.results.run_folder.reader import read_run
from emulator.results.run_folder.schema import SAMPLES_SCHEMA, RunTable
from emulator.results.run_folder.writer import RunWriter
from tests.support.limits import limited
from tests.support.runs import Row, collective, columns, manifest, ranks, row, write_run


def iteration_rows(number: int) -> list[Row]:
    return collective([0, 1], [50, 60], iteration=number)


def test_a_closed_run_reads_back_as_it_was_recorded(tmp_path: Path) -> None:
    rows = [*iteration_rows(-1), *iteration_rows(0)]
    rows[0] |= {"arrival_ns": 49, "peer": 3, "node_id": 2**64 - 1, "name": "ü"}
    run = write_run(
        tmp_path / "run",
        rows,
        iterations={0: ranks((0, 70), (1, 80), compute=5, communication=60, overlap=4)},
        flows=[FlowCounters(0, 1, bytes=1000, messages=2, rtt_ns=7)],
    )
    assert (run.closed, run.manifest.status, run.manifest.reason) == (True, "complete", None)
    assert run.table(RunTable.SAMPLES).to_pylist() == rows
    assert run.table(RunTable.SAMPLES).schema == SAMPLES_SCHEMA
    assert run.table(RunTable.ITERATIONS).to_pylist()[1] == {
        "iteration": 0,
        "rank": 1,
        "start_ns": 1,
        "end_ns": 80,
        "compute_ns": 5,
        "communication_ns": 60,
        "overlap_ns": 4,
    }
    flow = run.table(RunTable.FLOWS).to_pylist()[0]
    assert (flow["bytes"], flow["rtt_ns"], flow["retransmits"]) == (1000, 7, None)


def test_a_closed_folder_contains_the_documented_files_and_nothing_else(tmp_path: Path) -> None:
    write_run(tmp_path / "a" / "run", iteration_rows(0))
    names = {path.name for path in (tmp_path / "a" / "run").iterdir()}
    assert names == {MANIFEST, "samples.parquet", "flows.parquet", "iterations.parquet"}


def test_a_folder_with_something_in_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "precious").touch()
    with pytest.raises(InputError, match="not empty"), RunWriter(tmp_path, manifest()):
        pass
    with pytest.raises(InputError, match="not a folder"), RunWriter(tmp_path / "precious", manifest()):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["precious"]


@pytest.mark.parametrize(
    ("error", "status", "reason"),
    [
        (RunAborted("interrupted"), "aborted", "interrupted"),
        (KeyboardInterrupt(), "aborted", "interrupted"),
        (AgentLost("a1", ranks=[0], reason="gone"), "aborted", "agent a1 is lost (gone); its ranks: 0"),
    ],
)
def test_a_run_that_ends_badly_keeps_what_was_measured(
    tmp_path: Path, error: BaseException, status: str, reason: str
) -> None:
    def measure() -> None:
        with RunWriter(tmp_path / "run", manifest()) as writer:
            writer.add(RunTable.SAMPLES, columns(iteration_rows(0)))
            raise error

    with pytest.raises(type(error)):
        measure()
    run = read_run(tmp_path / "run")
    assert (run.closed, run.manifest.status, run.manifest.reason) == (True, status, reason)
    assert run.table(RunTable.SAMPLES).num_rows == 2


def test_rows_can_be_read_before_the_folder_is_closed(tmp_path: Path) -> None:
    with RunWriter(tmp_path / "run", manifest()) as writer:
        writer.add(RunTable.SAMPLES, columns(iteration_rows(0)))
        writer.add(RunTable.SAMPLES, columns(iteration_rows(1)))
        assert writer.run().table(RunTable.SAMPLES, ["iteration"])["iteration"].to_pylist() == [0, 0, 1, 1]


def test_many_batches_become_few_row_groups_with_their_labels(tmp_path: Path) -> None:
    names = [f"node {number % 7}" for number in range(300)]
    with RunWriter(tmp_path / "run", manifest()) as writer:
        for name in names:
            writer.add(RunTable.SAMPLES, columns([row(name=name)]))
            writer.flush()
    assert read_run(tmp_path / "run").table(RunTable.SAMPLES, ["name"])["name"].to_pylist() == names


def test_facts_that_become_known_during_the_run_reach_the_manifest(tmp_path: Path) -> None:
    facts = replace(
        manifest(),
        hosts=(
            HostFacts("a0", ranks=2, facts={"kernel": "6"}, peak_rss_bytes=5, transport={"x": Parameter(7, "bytes")}),
        ),
        parameters={"timeout": Parameter(30, "s"), "transport": Parameter("zmq")},
        scaling=Scaling(bytes=0.5, compute="skip", element_bytes=2),
        trials=Trials(attempted=3, warmup=1, included=1, excluded=(Exclusion(1, "a rank was late"),)),
        topology={"name": "loopback", "hosts": [{"name": "h0"}]},
        dut={"vendor": "x"},
        warnings={"dangling dependency": 2},
        roofline_ns=17,
    )
    with RunWriter(tmp_path / "run", manifest()) as writer:
        writer.manifest = facts
        assert read_manifest(tmp_path / "run" / PARTIAL_MANIFEST).hosts[0].agent == "a0"
    assert read_run(tmp_path / "run").manifest == replace(facts, status="complete")


def disk_full_at(size: int) -> AbstractContextManager[None]:
    """Writes beyond this size of a file fail, as on a full disk."""
    return limited(resource.RLIMIT_FSIZE, size)


def test_a_failed_write_fails_the_run_and_keeps_earlier_rows(tmp_path: Path) -> None:
    def measure() -> None:
        with RunWriter(tmp_path / "run", manifest()) as writer:
            writer.add(RunTable.SAMPLES, columns(iteration_rows(0)))
            size = (tmp_path / "run" / RunTable.SAMPLES.stream_name).stat().st_size
            with disk_full_at(size + 100):
                writer.add(RunTable.SAMPLES, columns(iteration_rows(1)))
                writer.flush()

    with pytest.raises(HostError, match=r"samples.partial.arrows: cannot write results .*free some space"):
        measure()
    run = read_run(tmp_path / "run")
    assert run.manifest.status == "aborted"
    assert run.table(RunTable.SAMPLES).to_pylist() == iteration_rows(0)


def test_a_folder_that_cannot_be_begun_is_let_go(tmp_path: Path) -> None:
    with disk_full_at(1), pytest.raises(HostError, match="cannot write results"), RunWriter(tmp_path, manifest()):
        pass
    assert is_being_written(tmp_path) is False


def test_a_folder_that_is_deleted_fails_the_run(tmp_path: Path) -> None:
    def measure() -> None:
        with RunWriter(tmp_path / "run", manifest()) as writer:
            shutil.rmtree(tmp_path / "run")
            writer.add(RunTable.SAMPLES, columns(iteration_rows(0)))
            writer.flush()

    with pytest.raises(HostError, match="run: the run folder was deleted or moved"):
        measure()
    assert not (tmp_path / "run").exists()


def test_a_disk_that_fills_up_at_the_end_leaves_the_streams(tmp_path: Path) -> None:
    writer = RunWriter(tmp_path / "run", manifest()).__enter__()
    writer.add(RunTable.SAMPLES, columns(iteration_rows(0)))
    with disk_full_at(5600), pytest.raises(HostError, match=r"samples.parquet.*cannot write results"):
        writer.close()
    run = read_run(tmp_path / "run")
    assert (run.manifest.status, run.table(RunTable.SAMPLES).num_rows) == ("interrupted", 2)


def test_device_counters_are_a_table_only_if_there_are_any(tmp_path: Path) -> None:
    with RunWriter(tmp_path / "run", manifest()) as writer:
        writer.add(
            RunTable.COUNTERS,
            {
                "time_ns": [5, 5],
                "device": "sw0",
                "interface": ["p0", "p1"],
                "counter": "rx_packets",
                "value": [7, 2**40],
            },
        )
        assert writer.run().table(RunTable.COUNTERS).num_rows == 2
    rows = read_run(tmp_path / "run").table(RunTable.COUNTERS).to_pylist()
    assert rows[1] == {"time_ns": 5, "device": "sw0", "interface": "p1", "counter": "rx_packets", "value": 2**40}
    assert {path.name for path in (tmp_path / "run").iterdir()} >= {"counters.parquet"}
