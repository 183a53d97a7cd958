from pathlib import Path

import pytest

from emulator.control.observations import FlowCounters
from emulator.run_folder.manifest import Exclusion, HostFacts, Scaling, TraceFacts, Trials
from emulator.statistics.collectives import merge
from emulator.statistics.summary import ClassSummary, classify, summarise
from tests.support.runs import Row, collective, manifest, pair, ranks, row, table, write_run


def only_class(rows: list[Row], *, scaled_by: float = 1.0) -> ClassSummary:
    (found,) = classify(merge(table(rows)), scaled_by=scaled_by)
    return found


def timed(*ccts: int, **fields: object) -> list[Row]:
    """An all-reduce of two ranks per iteration, with these times."""
    return [
        one for number, cct in enumerate(ccts) for one in collective([10, 0], [10 + cct, 5], iteration=number, **fields)
    ]


def test_speeds_come_from_the_median_time() -> None:
    found = only_class(timed(4000, 1000, 2000, size_bytes=1_000_000))
    assert (found.cct_p50_ns, found.cct_max_ns, found.cct_p99_ns, found.samples) == (2000, 4000, None, 3)
    assert found.algbw_bytes_per_s == pytest.approx(500e9)
    assert found.busbw_bytes_per_s == pytest.approx(500e9)
    assert found.skew_p50_ns == 10
    assert found.count == 1


@pytest.mark.parametrize(
    ("kind", "members", "busbw"),
    [
        ("all_reduce", 2, 1.0),
        ("all_reduce", 3, 4 / 3),
        ("all_reduce", 4, 1.5),
        ("all_gather", 4, 3.0),  # 4 shards of 1 MB, three quarters of which cross the bus, in 1 ms
        ("reduce_scatter", 4, 0.75),
        ("gather", 4, 3.0),
        ("broadcast", 4, 1.0),
    ],
)
def test_bus_bandwidth_in_gigabytes_per_second(kind: str, members: int, busbw: float) -> None:
    rows = collective([0] * members, [1_000_000] * members, kind=kind, size_bytes=1_000_000)
    assert only_class(rows).busbw_bytes_per_s == pytest.approx(busbw * 1e9)


def test_a_class_with_a_hundred_samples_has_a_99th_percentile() -> None:
    found = only_class(timed(*range(1, 101)))
    assert (found.cct_p99_ns, found.cct_max_ns) == (99, 100)


@pytest.mark.parametrize(
    "rows",
    [
        [row(group_size=1)],
        collective([0, 0], [5, 5], size_bytes=0),
        collective([0, 0], [5, 5], kind="barrier", size_bytes=0),
    ],
)
def test_what_moves_nothing_has_a_time_and_no_speed(rows: list[Row]) -> None:
    for one in rows:
        one |= {"ideal_ns": 1, "traced_ns": 1}
    found = only_class(rows)
    assert found.cct_p50_ns is not None
    assert (found.algbw_bytes_per_s, found.busbw_bytes_per_s, found.ideal_percent, found.bw_ratio) == (None,) * 4


def test_early_payload_takes_the_speed_but_not_the_time() -> None:
    rows = timed(1000, 3000, ideal_ns=500)
    rows[0]["early"] = True
    found = only_class(rows)
    assert found.cct_p50_ns == 1000
    assert found.algbw_bytes_per_s == pytest.approx(1000 * 1e9 / 3000)
    assert found.ideal_percent == pytest.approx(100 / 6)
    rows[2]["early"] = True
    assert (only_class(rows).busbw_bytes_per_s, only_class(rows).ideal_percent) == (None, None)


def test_a_time_below_zero_is_never_a_speed() -> None:
    found = only_class(timed(-50, 100))
    assert (found.samples, found.cct_p50_ns, found.algbw_bytes_per_s) == (1, 100, pytest.approx(1e10))
    assert only_class(timed(-50)).cct_p50_ns is None


def test_ideal_and_traced_stand_against_the_median_time() -> None:
    found = only_class(timed(4000, 2000, ideal_ns=500, traced_ns=3000))
    assert found.ideal_percent == pytest.approx(25)
    assert found.traced_ns == 3000
    assert found.bw_ratio == pytest.approx(1.5)


def test_a_scaled_size_is_scaled_back_before_it_is_compared_with_the_trace() -> None:
    assert only_class(timed(2000, traced_ns=3000), scaled_by=0.1).bw_ratio == pytest.approx(0.15)


def test_classes_are_told_apart_and_the_costliest_comes_first() -> None:
    rows = [
        *collective([0, 0], [100, 100], instance=0),
        *collective([0, 0], [100, 100], instance=1),
        *collective([0, 0], [150, 150], instance=2, algorithm="direct"),
        *collective([0, 0, 0], [20, 20, 20], instance=3),
        *collective([0, 0], [10, 10], instance=4, size_bytes=7),
        *pair(0, 5, instance=5),
    ]
    found = classify(merge(table(rows)))
    assert [(one.collective, one.members, one.size_bytes, one.algorithm, one.count) for one in found] == [
        ("all_reduce", 2, 1000, "ring", 2),
        ("all_reduce", 2, 1000, "direct", 1),
        ("all_reduce", 3, 1000, "ring", 1),
        ("all_reduce", 2, 7, "ring", 1),
        ("send_recv", 2, 1000, "ring", 1),
    ]


def test_the_same_in_several_groups_is_one_class_counted_per_iteration() -> None:
    rows = [
        one
        for iteration in (0, 1)
        for instance, group in enumerate(("a", "b", "c"))
        for one in collective([0, 0], [9, 9], iteration=iteration, instance=instance, group=group)
    ]
    assert (only_class(rows).count, only_class(rows).samples) == (3, 6)


def test_warm_up_and_excluded_iterations_do_not_count(tmp_path: Path) -> None:
    rows = [
        one
        for n, cct in ((-1, 9000), (0, 100), (1, 7000), (2, 200))
        for one in collective([0, 0], [cct] * 2, iteration=n)
    ]
    spans = {n: ranks((0, 10**6 * (n + 3)), (0, 50)) for n in (-1, 0, 1, 2)}
    trials = Trials(attempted=4, warmup=1, included=2, excluded=(Exclusion(1, "a rank was late"),))
    summary = summarise(write_run(tmp_path / "run", rows, iterations=spans, trials=trials))
    assert [(one.samples, one.cct_max_ns) for one in summary.classes] == [(2, 200)]
    assert summary.iteration is not None
    assert (summary.iteration.count, summary.iteration.jct_min_ns, summary.iteration.jct_max_ns) == (2, 3e6, 5e6)
    assert summary.totals.samples == 4


def test_an_iteration_lasts_from_its_first_start_to_its_last_end(tmp_path: Path) -> None:
    spans = {
        0: ranks((100, 500), (120, 900), communication=1),
        1: ranks((1000, 1300), (990, 1290), compute=200, communication=150, overlap=90),
        2: ranks((2000, 2100), (2000, 2050), communication=3),
    }
    found = summarise(
        write_run(tmp_path / "run", [], iterations=spans, roofline_ns=155, sequential_roofline_ns=310)
    ).iteration
    assert found is not None
    assert (found.count, found.jct_ns, found.jct_min_ns, found.jct_max_ns) == (3, 310, 100, 800)
    assert (found.roofline_ratio, found.sequential_roofline_ratio) == (2, 1)
    assert (found.slowest_rank, found.exposed_ns, found.overlap_ns) == (0, 60, 90)
    assert found.exposed_fraction == pytest.approx(60 / 310)
    assert found.overlap_fraction == pytest.approx(0.6)


def test_an_iteration_that_a_rank_did_not_finish_has_no_time(tmp_path: Path) -> None:
    summary = summarise(write_run(tmp_path / "run", timed(5), iterations={0: ranks((0, 9))}))
    assert summary.iteration is None
    assert summary.totals.payload_bytes_per_s is None


def test_totals_are_per_iteration_and_counters_only_where_known(tmp_path: Path) -> None:
    rows = [*timed(100, 100), *pair(0, 9, instance=1, early=True), *collective([0], [1], group_size=2, instance=2)]
    rows[0]["early"] = True
    flows = [FlowCounters(0, 1, bytes=5, retransmits=2), FlowCounters(1, 0, bytes=5, retransmits=3)]
    spans = {n: ranks((0, 500), (0, 400)) for n in (0, 1)}
    totals = summarise(write_run(tmp_path / "run", rows, iterations=spans, flows=flows)).totals
    assert totals.payload_bytes == 3500
    assert totals.payload_bytes_per_s == pytest.approx(3500 / 500e-9)
    assert (totals.early, totals.incomplete, totals.negative) == (1, 1, 0)
    assert totals.counters == {"retransmits": 5}


def test_the_tester_is_described_by_its_worst_agent(tmp_path: Path) -> None:
    hosts = (
        HostFacts("a", peak_rss_bytes=5, post_lateness_median_ns=70, steal_fraction=0.0),
        HostFacts("b", peak_rss_bytes=9, post_lateness_median_ns=30, steal_fraction=0.25),
        HostFacts("c"),
    )
    tester = summarise(write_run(tmp_path / "run", [], hosts=hosts)).tester
    assert (tester.agents, tester.peak_rss_bytes, tester.post_lateness_median_ns) == (3, 9, 70)
    assert tester.steal_fraction == 0.25
    assert tester.observation_point == "endpoint software boundary"


def test_a_run_without_samples_sums_up_to_nothing(tmp_path: Path) -> None:
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


def test_the_trace_names_how_many_ranks_make_an_iteration_whole(tmp_path: Path) -> None:
    trace = TraceFacts("t", "00", ranks=1, nodes=1, communication_nodes=0)
    assert summarise(write_run(tmp_path / "run", [], iterations={0: ranks((0, 9))}, trace=trace)).iteration is not None
    assert manifest(trace=trace).trace.ranks == 1
