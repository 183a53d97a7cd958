"""`charkha run --record-steps`: what it writes agrees with the algorithms and with the samples."""

from collections import Counter, defaultdict
from pathlib import Path

from emulator.planner.schedule import Collective
from emulator.results.run_folder.reader import Run, read_run
from emulator.results.run_folder.schema import RunTable
from emulator.results.statistics.samples.classes import class_rows
from emulator.results.statistics.samples.collectives import MERGE_COLUMNS, MergedSamples, merge
from emulator.results.statistics.samples.measured_rows import read_measured
from emulator.trace.meaning.model import CommKind
from tests.support.command import EXAMPLE, succeed
from tests.support.schedules import bytes_per_member


def played(folder: Path, steps: str, *options: object) -> Run:
    """A run of the example with small messages, of which every step is known."""
    small = ("--scale-bytes", "1/64", "--iterations", 2, "--agents", 2)
    finished = succeed("run", EXAMPLE, *small, "--record-steps", steps, "--out", "run", *options, cwd=folder)
    assert "recorded steps are missing" not in finished.stdout
    return read_run(folder / "run")


def closed_form(merged: MergedSamples, at: int) -> int:
    """Bytes that all members of an instance send together."""
    kind, members = CommKind(int(merged.kind[at])), int(merged.members[at])
    if not kind.is_collective:
        return int(merged.size_bytes[at])
    algorithm = merged.algorithms[merged.algorithm[at]]
    size = int(merged.size_bytes[at])
    return sum(bytes_per_member(algorithm, Collective(kind, members, n, size))[0] for n in range(members))


def merged_of(run: Run) -> MergedSamples:
    return merge(read_measured(run, RunTable.SAMPLES, MERGE_COLUMNS))


def test_the_slowest_of_each_class_is_recorded_and_sends_what_its_algorithm_says(tmp_path: Path) -> None:
    run = played(tmp_path, "worst")
    steps, merged = run.table(RunTable.STEPS).to_pylist(), merged_of(run)
    at = {(int(merged.iteration[n]), int(merged.instance[n])): n for n in range(len(merged))}
    sent: Counter[tuple[int, int]] = Counter()
    for row in steps:
        sent[row["iteration"], row["instance"]] += row["size_bytes"]
    assert sent == {key: closed_form(merged, at[key]) for key in sent}
    slowest = [int(merged.cct_ns[rows].max()) for key, rows in class_rows(merged) if key.takes_time]
    assert sorted(int(merged.cct_ns[at[key]]) for key in sent) == sorted(slowest)


def test_every_transfer_of_all_instances_is_whole_and_in_order(tmp_path: Path) -> None:
    run = played(tmp_path, "1", "--no-report")
    rows, merged = run.table(RunTable.STEPS).to_pylist(), merged_of(run)
    sent: Counter[tuple[int, int]] = Counter()
    arrivals: defaultdict[tuple[int, ...], list[tuple[int, int]]] = defaultdict(list)
    for row in rows:
        sent[row["iteration"], row["instance"]] += row["size_bytes"]
        assert row["start_ns"] <= row["post_ns"] < row["arrival_ns"]
        assert row["post_ns"] < row["acknowledged_ns"]
        assert row["qpn"] is not None
        line = tuple(row[name] for name in ("iteration", "instance", "src", "dst", "lane"))
        arrivals[line].append((row["step"], row["arrival_ns"]))
    assert all(sorted(line) == sorted(line, key=lambda one: (one[1], one[0])) for line in arrivals.values())
    expected = {(int(merged.iteration[n]), int(merged.instance[n])): closed_form(merged, n) for n in range(len(merged))}
    assert sent == {key: size for key, size in expected.items() if size}
