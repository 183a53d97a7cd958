"""One frame is lost once: the iteration, the flow and the step that it cost are named."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from emulator.results.run_folder.reader import Run, read_run
from emulator.results.run_folder.schema import RunTable
from emulator.results.statistics.summary import RunSummary, summarise
from tests.support.command import COMMAND, ROOT
from tests.support.machine import machine

pytestmark = [pytest.mark.usefixtures("lab_host"), pytest.mark.slow]
TOPOLOGY = ROOT / "topologies" / "two-hosts-switch.yaml"
PROFILE = """
name: last
rules:
  - {name: one, drop: {once: true}, opcode: last, port: "sw0:p1", start: 0.6}
"""
TIMEOUT_NS = 4096 << 16


@pytest.fixture(scope="module")
def run(lab_host: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """All-to-alls between two hosts; the last packet of one transfer is lost, so only a timeout repeats it."""
    with machine(tmp_path_factory.mktemp("steps")) as host:
        (host.folder / "last.yaml").write_text(PROFILE)
        host.run(*COMMAND, "lab", "up", TOPOLOGY, "--force")
        bench = ("bench", "all_to_all", "-n", 4, "-b", "1M", "-e", "1M", "--iterations", 100, "--record-steps", "worst")
        device = ("--topology", TOPOLOGY, "--profile", "last.yaml", "--counters-every", 0.02)
        host.succeed(*bench, *device, "--qp-timeout", 16, "--out", "run", timeout_s=120)
        yield read_run(host.folder / "run")
        host.succeed("lab", "down", "--all")


@pytest.fixture(scope="module")
def summary(run: Run) -> RunSummary:
    return summarise(run)


def while_dropping(run: Run) -> set[int]:
    """The iterations that were under way between the two readings of the counter that grew: one, or two neighbours."""
    readings = [
        (row["time_ns"], row["value"])
        for row in run.table(RunTable.COUNTERS).to_pylist()
        if (row["counter"], row["interface"]) == ("profile_drops", "p1")
    ]
    (before, _), (after, _) = next((one, two) for one, two in pairwise(readings) if one[1] < two[1])
    times = run.table(RunTable.ITERATIONS).to_pylist()
    return {one["iteration"] for one in times if one["start_ns"] <= after and one["end_ns"] >= before}


def lost(run: Run) -> list[dict[str, Any]]:
    """The row of the flow that lost a packet: its sender timed out while the device dropped.

    On a busy machine others time out, too: their ACK was read late. A few of them can have the same hosts.
    """
    iterations = while_dropping(run)
    return [
        row
        for row in run.table(RunTable.FLOW_EVENTS).to_pylist()
        if row["timeouts"] and row["iteration"] in iterations and row["src"] in (0, 1) and row["dst"] in (2, 3)
    ]


def test_a_flow_names_the_iteration_in_which_the_device_dropped_its_frame(run: Run) -> None:
    assert any(row["retransmits"] for row in lost(run))


def test_events_of_iterations_add_up_to_the_totals(run: Run) -> None:
    names = ("retransmits", "timeouts", "duplicates", "out_of_order")
    totals = {name: sum(run.table(RunTable.FLOWS)[name].to_pylist()) for name in names}
    events = run.table(RunTable.FLOW_EVENTS)
    assert {name: sum(filter(None, events[name].to_pylist())) for name in names} == totals


def test_a_worst_step_is_that_of_the_rank_pair_and_says_what_it_cost(run: Run, summary: RunSummary) -> None:
    names = ("iteration", "src", "dst", "qpn")
    where = {tuple(row[name] for name in names) for row in lost(run)}
    worst = next(one for one in summary.worst_steps if tuple(getattr(one, name) for name in names) in where)
    assert worst.waited_for == "payload"
    assert worst.above_median_ns is not None
    assert worst.above_ideal_ns is not None
    assert min(worst.above_median_ns, worst.above_ideal_ns) > TIMEOUT_NS / 2
    assert worst.path == "h0:eth0 - sw0 (p0 to p1) - h1:eth0"
    assert worst.events["timeouts"] >= 1
    assert worst.device_drops == 1


def test_what_the_lost_frame_cost_is_the_networks_part(summary: RunSummary) -> None:
    (found,) = summary.classes
    assert TIMEOUT_NS <= found.network.cct_max_ns <= found.cct_max_ns
    assert 0 < found.network.cct_p50_ns < found.cct_p50_ns
