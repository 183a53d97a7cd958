from pathlib import Path

import pytest

from emulator.control.observations import FlowCounters
from emulator.results.run_folder.flow_results import FlowResult
from emulator.results.run_folder.manifest import Exclusion, HostFacts, Scaling, Trials
from emulator.results.statistics.summary import summarise
from emulator.results.statistics.traffic.background import flow_results
from emulator.views.as_json import summary_to_json
from emulator.views.columns.comparison_columns import FLOW_RESULT_COLUMNS
from emulator.views.columns.figures import NONE
from tests.support.flow_results import RESULTS, write_flow_results
from tests.support.runs import collective, pair, ranks, timed, write_run


def test_warm_up_and_excluded_iterations_do_not_count(tmp_path: Path) -> None:
    rows = [
        one
        for n, cct in ((-1, 9000), (0, 100), (1, 7000), (2, 200))
        for one in collective([0, 0], [cct] * 2, iteration=n)
    ]
    spans = {n: ranks((10**7 * n, 10**7 * n + 10**6 * (n + 3)), (10**7 * n, 10**7 * n + 50)) for n in (-1, 0, 1, 2)}
    trials = Trials(attempted=4, warmup=1, included=2, excluded=(Exclusion(1, "a rank was late"),))
    summary = summarise(write_run(tmp_path / "run", rows, iterations=spans, trials=trials))
    assert [(one.samples, one.cct_max_ns) for one in summary.classes] == [(2, 200)]
    assert (summary.iteration.count, summary.iteration.jct_min_ns, summary.iteration.jct_max_ns) == (2, 3e6, 5e6)
    assert summary.totals.samples == 4


def test_payload_is_per_iteration_and_unknown_counters_are_absent(tmp_path: Path) -> None:
    rows = [*timed(100, 100), *pair(0, 9, instance=1, early=True), *collective([0], [1], group_size=2, instance=2)]
    rows[0]["early"] = True
    flows = [FlowCounters(0, 1, bytes=5, retransmits=2), FlowCounters(1, 0, bytes=5, retransmits=3)]
    spans = {n: ranks((900 * n, 900 * n + 500), (900 * n, 900 * n + 400)) for n in (0, 1)}
    totals = summarise(write_run(tmp_path / "run", rows, iterations=spans, flows=flows)).totals
    assert totals.payload_bytes == 3500
    assert totals.payload_bytes_per_s == pytest.approx(3500 / 500e-9)
    assert (totals.early, totals.incomplete, totals.negative) == (1, 1, 0)
    assert totals.counters == {"retransmits": 5}


def test_tester_facts_are_the_largest_of_all_agents(tmp_path: Path) -> None:
    hosts = (
        HostFacts("a", peak_rss_bytes=5, post_lateness_median_ns=70, steal_fraction=0.0),
        HostFacts("b", peak_rss_bytes=9, post_lateness_median_ns=30, steal_fraction=0.25),
        HostFacts("c"),
    )
    tester = summarise(write_run(tmp_path / "run", [], hosts=hosts)).tester
    assert (tester.agents, tester.peak_rss_bytes, tester.post_lateness_median_ns) == (3, 9, 70)
    assert tester.steal_fraction == 0.25
    assert tester.observation_point == "endpoint software boundary"


def test_delays_of_reading_are_of_the_samples_with_a_time_stamp_of_the_kernel(tmp_path: Path) -> None:
    rows = [one for number in range(101) for one in collective([0], [9], instance=number, read_delay_ns=number or None)]
    tester = summarise(write_run(tmp_path / "run", rows)).tester
    assert (tester.read_delay_median_ns, tester.read_delay_p99_ns) == (50, 99)


def test_a_run_without_samples_has_an_empty_summary(tmp_path: Path) -> None:
    summary = summarise(write_run(tmp_path / "run", []))
    assert (summary.classes, summary.iteration, summary.totals.samples) == ((), None, 0)


@pytest.mark.parametrize(
    ("scaling", "is_scaled"),
    [
        (Scaling(), False),
        (Scaling(element_bytes=2), False),
        (Scaling(bytes=0.5), True),
        (Scaling(compute="skip"), True),
        (Scaling(compute="0.5"), True),
    ],
)
def test_scaling_is_known_as_such(scaling: Scaling, is_scaled: bool) -> None:
    assert scaling.is_scaled is is_scaled


def test_a_run_without_flows_has_none(tmp_path: Path) -> None:
    assert flow_results(write_run(tmp_path / "run", collective([0, 0], [9, 9]))) == ()


def test_the_summary_has_every_direction_of_every_flow(tmp_path: Path) -> None:
    run = write_flow_results(tmp_path / "run")
    summary = summarise(run)
    assert summary.flow_results == RESULTS
    assert summary.totals.unexplained_retransmissions is None  # what a device dropped may be of the flows
    assert [row["messages"] for row in summary_to_json(summary)["flow_results"]] == [9, 8, 7]


def test_the_table_says_who_counted_what() -> None:
    def cells(result: FlowResult) -> list[str]:
        return [column.cell(result) for column in FLOW_RESULT_COLUMNS]

    sent, reported, latency = (cells(result) for result in RESULTS)
    assert sent[:4] == ["0: h0 → nic", "write 64 KiB", "sent by h0", "9"]
    assert sent[5:] == ["8.00", "3", NONE, "yes"]
    assert reported[0] == "1: h1 ← nic"
    assert reported[2] == "read by nic, it says"
    assert latency[2] == "read by h1"
    assert latency[7:] == ["12 µs", "no"]
