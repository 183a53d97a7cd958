import json
import resource
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from emulator.control.observations import FlowCounters
from emulator.control.parameter import Parameter
from emulator.errors import AgentLost, HostError, InputError, ResultError, RunAborted
from emulator.run_folder.layout import MANIFEST, PARTIAL_MANIFEST
from emulator.run_folder.manifest import Exclusion, HostFacts, Scaling, Trials, read_manifest, to_json
from emulator.run_folder.reader import read_run
from emulator.run_folder.schema import SAMPLES_SCHEMA, Part, to_batch
from emulator.run_folder.writer import RunWriter
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
    assert run.table(Part.SAMPLES).to_pylist() == rows
    assert run.table(Part.SAMPLES).schema == SAMPLES_SCHEMA
    assert run.table(Part.ITERATIONS).to_pylist()[1] == {
        "iteration": 0,
        "rank": 1,
        "start_ns": 1,
        "end_ns": 80,
        "compute_ns": 5,
        "communication_ns": 60,
        "overlap_ns": 4,
    }
    flow = run.table(Part.FLOWS).to_pylist()[0]
    assert (flow["bytes"], flow["rtt_ns"], flow["retransmits"]) == (1000, 7, None)


def test_columns_that_an_older_charkha_did_not_write_are_null(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", iteration_rows(0), flows=[FlowCounters(0, 1, bytes=9, retransmits=1, qpn=17)])
    path = tmp_path / "run" / Part.FLOWS.file_name
    pq.write_table(pq.read_table(path).drop_columns(["qpn", "timeouts"]), path)
    (flow,) = run.table(Part.FLOWS).to_pylist()
    assert (flow["bytes"], flow["retransmits"], flow["qpn"], flow["timeouts"]) == (9, 1, None, None)
    pq.write_table(pq.read_table(path).drop_columns(["bytes"]), path)
    with pytest.raises(ResultError, match="lacks column bytes as int64"):
        run.table(Part.FLOWS)


def test_a_closed_folder_holds_the_contract_s_files_and_nothing_else(tmp_path: Path) -> None:
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
            writer.add_samples(columns(iteration_rows(0)))
            raise error

    with pytest.raises(type(error)):
        measure()
    run = read_run(tmp_path / "run")
    assert (run.closed, run.manifest.status, run.manifest.reason) == (True, status, reason)
    assert run.table(Part.SAMPLES).num_rows == 2


def crash_after(folder: Path, batches: int) -> None:
    """A folder as a killed process leaves it: the files of a run that is still going on."""
    with RunWriter(folder.parent / "living", manifest()) as writer:
        for number in range(batches):
            writer.add_samples(columns(iteration_rows(number)))
            writer.flush()
        shutil.copytree(writer.folder, folder)


def test_a_crashed_run_reads_as_aborted_with_its_samples(tmp_path: Path) -> None:
    crash_after(tmp_path / "run", 3)
    run = read_run(tmp_path / "run")
    assert (run.closed, run.manifest.status) == (False, "aborted")
    assert run.manifest.reason == "the run ended without closing its folder"
    assert run.table(Part.SAMPLES).to_pylist() == [one for n in range(3) for one in iteration_rows(n)]
    assert run.table(Part.FLOWS).num_rows == 0


def test_a_crashed_run_counts_the_iterations_that_every_rank_completed(tmp_path: Path) -> None:
    with RunWriter(tmp_path / "living", manifest(trials=Trials())) as writer:
        for number in (-1, 0, 1):
            writer.add_iteration(number, ranks((0, 70), (1, 80)))
        writer.add_iteration(2, ranks((0, 70)))
        writer.flush()
        shutil.copytree(writer.folder, tmp_path / "run")
    excluded = (Exclusion(2, "not all ranks completed it"),)
    found = read_run(tmp_path / "run").manifest.trials
    assert found == Trials(attempted=4, warmup=1, included=2, excluded=excluded)


def test_a_folder_that_the_system_does_not_open_is_named_with_its_reason(tmp_path: Path) -> None:
    with pytest.raises(ResultError, match=r"aaa: cannot be read \(File name too long\)"):
        read_run(tmp_path / ("a" * 300))


def test_a_stream_cut_anywhere_gives_every_whole_batch(tmp_path: Path) -> None:
    crash_after(tmp_path / "run", 5)
    stream = tmp_path / "run" / Part.SAMPLES.stream_name
    data = stream.read_bytes()
    counts = []
    for length in [*range(0, len(data), 97), len(data)]:
        stream.write_bytes(data[:length])
        rows = read_run(tmp_path / "run").table(Part.SAMPLES).to_pylist()
        assert rows == [one for n in range(len(rows) // 2) for one in iteration_rows(n)]
        counts.append(len(rows))
    assert counts == sorted(counts)
    assert set(counts) == {0, 2, 4, 6, 8, 10}


def test_a_stream_whose_end_the_disk_filled_with_zeros_reads_up_to_there(tmp_path: Path) -> None:
    crash_after(tmp_path / "run", 2)
    with (tmp_path / "run" / Part.SAMPLES.stream_name).open("ab") as stream:
        stream.write(bytes(4096))
    assert read_run(tmp_path / "run").table(Part.SAMPLES).num_rows == 4


def test_rows_can_be_read_before_the_folder_is_closed(tmp_path: Path) -> None:
    with RunWriter(tmp_path / "run", manifest()) as writer:
        writer.add_samples(columns(iteration_rows(0)))
        writer.add_samples(columns(iteration_rows(1)))
        assert writer.run().table(Part.SAMPLES, ["iteration"])["iteration"].to_pylist() == [0, 0, 1, 1]


def test_many_batches_become_few_row_groups_with_their_labels(tmp_path: Path) -> None:
    names = [f"node {number % 7}" for number in range(300)]
    with RunWriter(tmp_path / "run", manifest()) as writer:
        for name in names:
            writer.add_samples(columns([row(name=name)]))
            writer.flush()
    assert read_run(tmp_path / "run").table(Part.SAMPLES, ["name"])["name"].to_pylist() == names


def test_facts_learnt_on_the_way_reach_the_manifest(tmp_path: Path) -> None:
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


@contextmanager
def disk_full_at(size: int) -> Iterator[None]:
    """Writes beyond this size of a file fail, as on a full disk."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_a_failed_write_fails_the_run_and_keeps_what_was_there(tmp_path: Path) -> None:
    def measure() -> None:
        with RunWriter(tmp_path / "run", manifest()) as writer:
            writer.add_samples(columns(iteration_rows(0)))
            size = (tmp_path / "run" / Part.SAMPLES.stream_name).stat().st_size
            with disk_full_at(size + 100):
                writer.add_samples(columns(iteration_rows(1)))
                writer.flush()

    with pytest.raises(HostError, match=r"samples.partial.arrows: cannot write results .*free space"):
        measure()
    run = read_run(tmp_path / "run")
    assert run.manifest.status == "aborted"
    assert run.table(Part.SAMPLES).to_pylist() == iteration_rows(0)


def test_a_disk_that_fills_up_at_the_end_leaves_the_streams(tmp_path: Path) -> None:
    writer = RunWriter(tmp_path / "run", manifest()).__enter__()
    writer.add_samples(columns(iteration_rows(0)))
    with disk_full_at(5000), pytest.raises(HostError, match=r"samples.parquet.*cannot write results"):
        writer.close()
    run = read_run(tmp_path / "run")
    assert (run.manifest.status, run.table(Part.SAMPLES).num_rows) == ("aborted", 2)


def edited(tmp_path: Path, **changes: object) -> Path:
    folder = tmp_path / "run"
    write_run(folder, iteration_rows(0))
    document = json.loads((folder / MANIFEST).read_text())
    (folder / MANIFEST).write_text(json.dumps(document | changes))
    return folder


def test_a_newer_format_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ResultError, match=r"manifest.json: has format version 2, this Charkha reads up to 1"):
        read_run(edited(tmp_path, format_version=2))


@pytest.mark.parametrize("version", [0, -1])
def test_a_format_that_never_was_is_refused(tmp_path: Path, version: int) -> None:
    with pytest.raises(ResultError, match="never existed"):
        read_run(edited(tmp_path, format_version=version))


def test_an_older_format_is_migrated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def rename_seed(document: dict[str, object]) -> dict[str, object]:
        return document | {"seed": document["random_seed"], "format_version": 1}

    monkeypatch.setattr("emulator.run_folder.migration.MIGRATIONS", {0: rename_seed})
    folder = edited(tmp_path, format_version=0, random_seed=42)
    assert read_run(folder).manifest.seed == 42


@pytest.mark.parametrize(
    "changes", [{"format_version": "1"}, {"status": "fine"}, {"trace": {}}, {"hosts": [1]}, {"seed": None}]
)
def test_what_is_no_manifest_is_refused(tmp_path: Path, changes: dict[str, object]) -> None:
    with pytest.raises(ResultError, match="not the manifest"):
        read_run(edited(tmp_path, **changes))


def test_facts_of_a_later_release_do_not_disturb(tmp_path: Path) -> None:
    assert read_run(edited(tmp_path, weather="fine")).manifest.status == "complete"


@pytest.mark.parametrize("text", ["", "[]", "{", "\udc80", "[" * 100_000])
def test_junk_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / MANIFEST).write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(ResultError, match="not the manifest"):
        read_run(tmp_path)


def test_a_folder_without_manifest_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(ResultError, match="not a run folder"):
        read_run(tmp_path)


@pytest.mark.parametrize("content", [None, b"", b"PAR1 junk PAR1"])
def test_a_damaged_table_is_named(tmp_path: Path, content: bytes | None) -> None:
    run = write_run(tmp_path / "run", iteration_rows(0))
    path = tmp_path / "run" / "samples.parquet"
    path.unlink() if content is None else path.write_bytes(content)
    with pytest.raises(ResultError, match=r"samples.parquet: cannot be read"):
        run.table(Part.SAMPLES)


def test_a_table_with_other_columns_is_named(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", iteration_rows(0))
    (tmp_path / "run" / "samples.parquet").write_bytes((tmp_path / "run" / "flows.parquet").read_bytes())
    with pytest.raises(ResultError, match="lacks column iteration as int32"):
        run.table(Part.SAMPLES)


def test_the_manifest_says_what_was_installed() -> None:
    versions = json.loads(to_json(manifest()))["versions"]
    assert {"charkha", "python", "numpy", "pyzmq"} <= set(versions)
    assert "not installed" not in versions.values()


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        ({"what": [1]}, "what"),
        ({"src": [1, 2], "dst": [1], "bytes": 0, "messages": 0}, "dst has 1 rows"),
        ({"src": [1], "bytes": 0, "messages": 0}, "dst has missing values"),
    ],
)
def test_rows_that_do_not_fit_the_schema_are_a_bug_that_shows(columns: dict[str, object], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        to_batch(Part.FLOWS.schema, columns)


def test_counters_of_devices_are_a_table_of_their_own_where_there_are_any(tmp_path: Path) -> None:
    with RunWriter(tmp_path / "run", manifest()) as writer:
        writer.add_counters(
            {
                "time_ns": [5, 5],
                "device": "sw0",
                "interface": ["p0", "p1"],
                "counter": "rx_packets",
                "value": [7, 2**40],
            }
        )
        assert writer.run().table(Part.COUNTERS).num_rows == 2
    rows = read_run(tmp_path / "run").table(Part.COUNTERS).to_pylist()
    assert rows[1] == {"time_ns": 5, "device": "sw0", "interface": "p1", "counter": "rx_packets", "value": 2**40}
    assert {path.name for path in (tmp_path / "run").iterdir()} >= {"counters.parquet"}


def test_a_run_without_counters_reads_as_one_with_none(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", iteration_rows(0))
    assert run.table(Part.COUNTERS).num_rows == 0


def test_nics_and_the_device_under_test_survive_the_manifest(tmp_path: Path) -> None:
    nic = {"interface": "eth0", "driver": "veth", "firmware": None, "speed_bps": 10**10, "mtu": 9000}
    facts = replace(manifest(), hosts=(HostFacts("agent-0", nics=(nic,)),), dut={"kind": "switch", "ports": ["sw0:p0"]})
    with RunWriter(tmp_path / "run", facts):
        pass
    read = read_manifest(tmp_path / "run" / MANIFEST)
    assert (read.hosts[0].nics, read.dut) == ((nic,), {"kind": "switch", "ports": ["sw0:p0"]})
