"""`charkha runs export` as a user runs it, on a run that was played here."""

from pathlib import Path

import pytest

from emulator.results.run_folder.reader import Run, read_run
from emulator.results.run_folder.schema import RunTable
from emulator.results.statistics.samples.measured_rows import read_measured
from emulator.results.statistics.summary import summarise
from tests.support.command import EXAMPLE, answer, succeed
from tests.support.perfetto_ui import trace_processor


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("export") / "run"
    succeed("run", EXAMPLE, "--iterations", "3", "--compute", "0.1", "--out", folder, cwd=folder.parent)
    return folder


def _busiest_device_ns(run: Run) -> int:
    """Compute of the rank that computed most, all measured iterations together."""
    table = read_measured(run, RunTable.ITERATIONS)
    busy = table.group_by("rank").aggregate([("compute_ns", "sum")])["compute_ns_sum"]
    return int(max(busy.to_pylist()))


@pytest.mark.slow
def test_perfetto_agrees_with_the_summary(run: Path, tmp_path: Path) -> None:
    answer("runs", "export", run, "--to", "perfetto", "--out", tmp_path / "line", cwd=tmp_path)
    summary = summarise(read_run(run))
    iteration = summary.iteration
    with trace_processor(tmp_path / "line") as trace:
        durations = trace.query(
            "select dur from slice where category = 'iteration'"
            " and extract_arg(arg_set_id, 'debug.iteration') is not null"
        )
        assert sorted(int(one) for [one] in durations)[1] == iteration.jct_ns
        usage = trace.query(
            "select extract_arg(arg_set_id, 'debug.compute_ns'), extract_arg(arg_set_id, 'debug.overlap_ns'),"
            " extract_arg(arg_set_id, 'debug.exposed_ns') from slice where category = 'iteration'"
        )
        wanted = [str(iteration.compute_ns), str(iteration.overlap_ns), str(iteration.exposed_ns)]
        assert wanted in usage
        [[count]] = trace.query("select count(*) from slice where category = 'communication'")
        assert int(count) == summary.totals.samples
        busy = trace.query(
            "select sum(dur) from slice where category = 'compute' group by track_id order by sum(dur) desc limit 1"
        )
        assert int(busy[0][0]) == _busiest_device_ns(read_run(run))
        [[nested]] = trace.query("select count(*) from slice where depth > 0")
        assert nested == "0"
        processes = trace.query("select name from process where name is not null order by name")
        assert [name for [name] in processes] == ["job", *(f"rank {rank}" for rank in range(8))]
