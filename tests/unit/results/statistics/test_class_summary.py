import pytest

from emulator.results.run_folder.manifest import LAST_DONE
from emulator.results.statistics.class_summary import ClassSummary, summarise_classes
from emulator.results.statistics.samples.classes import BETWEEN_HOSTS, IN_A_HOST
from emulator.results.statistics.samples.collectives import STAMP_ERROR_NS, merge
from tests.support.runs import Row, collective, pair, row, table, timed


def only_class(rows: list[Row], *, scaled_by: float = 1.0) -> ClassSummary:
    (found,) = summarise_classes(merge(table(rows)), scaled_by=scaled_by)
    return found


def test_bandwidth_comes_from_the_median_time() -> None:
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


def test_waits_for_a_core_are_known_for_a_class_and_taken_off_its_tail() -> None:
    quick, stalled = timed(100, 100, core_wait_ns=10), timed(900, core_wait_ns=350)
    for one in stalled:
        one["iteration"] = 2
    found = only_class([*quick, *stalled])
    assert found.cct_max_ns == 900
    assert found.cct_max_without_waits_ns == 200  # both members of the slow one waited for 350 ns
    assert found.core_wait_fraction == pytest.approx(0.1)
    stalled[1]["core_wait_ns"] = None
    unknown = only_class([*quick, *stalled])
    assert (unknown.cct_max_without_waits_ns, unknown.core_wait_fraction) == (None, None)
    assert unknown.without_waits("cct_max_ns") == unknown.cct_p50_ns == 100


@pytest.mark.parametrize(
    "rows",
    [
        [row(group_size=1)],
        collective([0, 0], [5, 5], size_bytes=0),
        collective([0, 0], [5, 5], kind="barrier", size_bytes=0),
    ],
)
def test_a_collective_that_moves_nothing_has_a_time_but_no_bandwidth(rows: list[Row]) -> None:
    for one in rows:
        one |= {"ideal_ns": 1, "traced_ns": 1}
    found = only_class(rows)
    assert found.cct_p50_ns is not None
    assert (found.algbw_bytes_per_s, found.busbw_bytes_per_s, found.ideal_percent, found.bw_ratio) == (None,) * 4


def test_a_measurement_with_early_payload_has_a_time_but_no_bandwidth() -> None:
    rows = timed(1000, 3000, ideal_ns=500, remaining_ideal_ns=500)
    rows[0]["early"] = True
    found = only_class(rows)
    assert found.cct_p50_ns == 1000
    assert found.algbw_bytes_per_s == pytest.approx(1000 * 1e9 / 3000)
    assert found.ideal_percent == pytest.approx(100 / 6)
    rows[2]["early"] = True
    assert (only_class(rows).busbw_bytes_per_s, only_class(rows).ideal_percent) == (None, None)


def test_a_negative_time_has_no_bandwidth() -> None:
    found = only_class(timed(-50, 100))
    assert (found.samples, found.cct_p50_ns, found.algbw_bytes_per_s) == (1, 100, pytest.approx(1e10))
    assert only_class(timed(-50)).cct_p50_ns is None


def test_ideal_and_traced_times_are_compared_with_the_median_time() -> None:
    found = only_class(timed(4000, 2000, ideal_ns=500, remaining_ideal_ns=500, traced_ns=3000))
    assert found.ideal_percent == pytest.approx(25)
    assert found.traced_ns == 3000
    assert found.bw_ratio == pytest.approx(1.5)


def test_bandwidth_and_ideal_are_of_what_had_still_to_move_after_the_last_post() -> None:
    # Half the bytes, which need 500 ns, took 625 ns: all would have taken 1,250 ns.
    found = only_class(timed(625, size_bytes=1_000_000, ideal_ns=1_000, remaining_ideal_ns=500))
    assert (found.ideal_percent, found.late) == (pytest.approx(80), 0)
    assert found.algbw_bytes_per_s == pytest.approx(1_000_000 * 1e9 / 1_250)
    assert (found.cct_p50_ns, found.slowest_to_mean) == (625, None)


def test_without_that_a_late_rank_leaves_no_bandwidth_and_no_ideal() -> None:
    late = timed(100, 110, 120, ideal_ns=1_000)  # 10 ns of skew: 1 % of the ideal
    found = only_class(late)
    assert (found.algbw_bytes_per_s, found.busbw_bytes_per_s, found.ideal_percent) == (None, None, None)
    assert (found.late, found.cct_p50_ns, found.slowest_to_mean) == (3, 110, None)


def test_a_skew_that_moves_next_to_nothing_leaves_the_ideal_as_it_is() -> None:
    found = only_class(timed(2_500, ideal_ns=2_000))  # 10 ns of skew: 0.5 % of the ideal
    assert (found.ideal_percent, found.late) == (pytest.approx(80), 0)
    assert found.slowest_to_mean is not None


def test_of_a_sample_only_the_sample_counts() -> None:
    # The first iteration was not late and not in the sample: it would stand for those that were late and are not there.
    rows = timed(1_000, 700, 800, 900, ideal_ns=600, remaining_ideal_ns=None)
    rows[0]["post_ns"] = 0
    for one in rows[2:4]:
        one["remaining_ideal_ns"] = 350
    found = only_class(rows)
    assert (found.ideal_percent, found.late) == (pytest.approx(50), 2)


def test_nothing_left_to_move_is_a_late_rank_too() -> None:
    assert only_class(timed(50, ideal_ns=600, remaining_ideal_ns=0)).late == 1


def test_what_was_ideal_before_version_2_stays_so() -> None:
    (found,) = summarise_classes(merge(table(timed(100, ideal_ns=50)), until=LAST_DONE))
    assert (found.ideal_percent, found.late) == (pytest.approx(50), 0)


def test_scaling_is_undone_before_comparing_with_the_trace() -> None:
    assert only_class(timed(2000, traced_ns=3000), scaled_by=0.1).bw_ratio == pytest.approx(0.15)


def test_classes_are_sorted_by_total_time() -> None:
    rows = [
        *collective([0, 0], [100, 100], instance=0),
        *collective([0, 0], [100, 100], instance=1),
        *collective([0, 0], [150, 150], instance=2, algorithm="direct"),
        *collective([0, 0, 0], [20, 20, 20], instance=3),
        *collective([0, 0], [10, 10], instance=4, size_bytes=7),
        *pair(0, 5, instance=5),
    ]
    found = summarise_classes(merge(table(rows)))
    assert [(one.collective, one.members, one.size_bytes, one.algorithm, one.count) for one in found] == [
        ("all_reduce", 2, 1000, "ring", 2),
        ("all_reduce", 2, 1000, "direct", 1),
        ("all_reduce", 3, 1000, "ring", 1),
        ("all_reduce", 2, 7, "ring", 1),
        ("send_recv", 2, 1000, "ring", 1),
    ]


def test_equal_collectives_of_several_groups_are_one_class() -> None:
    rows = [
        one
        for iteration in (0, 1)
        for instance, group in enumerate(("a", "b", "c"))
        for one in collective([0, 0], [9, 9], iteration=iteration, instance=instance, group=group)
    ]
    assert (only_class(rows).count, only_class(rows).samples) == (3, 6)


def test_a_class_inside_a_host_and_between_hosts_has_a_row_for_each() -> None:
    rows = [*collective([0, 0], [100, 100]), *collective([0, 0], [900, 900], instance=1)]
    for one in rows[2:]:
        one["rank"] += 1  # ranks 1 and 2
    found = summarise_classes(merge(table(rows), [0, 0, 1]))
    assert [(one.where, one.cct_p50_ns) for one in found] == [(BETWEEN_HOSTS, 900), (IN_A_HOST, 100)]
    assert found[0].key != found[1].key
    (together,) = summarise_classes(merge(table(rows)))
    assert (together.where, together.count) == ("", 2)


def split_of(rows: list[Row], *, lost: int = 0) -> ClassSummary:
    (found,) = summarise_classes(merge(table(rows)), lost=lost)
    return found


def test_the_networks_part_has_times_and_bandwidths_of_its_own_and_the_rest_is_the_testers() -> None:
    rows = timed(
        1_000_000, 1_200_000, 1_100_000, size_bytes=1_000_000, ideal_ns=500_000, network_ns=550_000,
        network_crossings=2, stalled_ns=0, core_wait_ns=0,
    )  # fmt: skip
    found = split_of(rows)
    assert found.network_p50_ns == 550_000
    assert found.tester_percent == pytest.approx(50)
    assert found.network_ideal_percent == pytest.approx(100 * 500 / 550)
    assert found.network_busbw_bytes_per_s == pytest.approx(1_000_000 / 550e-6)
    assert (found.ideal_percent, found.cct_p50_ns) == (pytest.approx(100 * 500 / 1_100), 1_100_000)
    assert found.network.at_best.cct_p50_ns == 550_000 - 2 * STAMP_ERROR_NS


@pytest.mark.parametrize(("lost", "off_ns"), [(0, 2 * 100_000), (3 * 4, 30_000), (3 * 4 - 1, 2 * 100_000)])
def test_waits_for_a_core_may_have_made_the_networks_part_longer_unless_losses_did(lost: int, off_ns: int) -> None:
    rows = timed(
        1_000_000, 1_000_000, 1_000_000, network_ns=900_000, network_crossings=0, stalled_ns=30_000,
        core_wait_ns=100_000, ideal_ns=500_000,
    )  # fmt: skip
    network = split_of(rows, lost=lost).network
    assert network.at_best.cct_max_ns == 900_000 - off_ns
    assert network.perfect.cct_max_ns == 500_000 + off_ns


@pytest.mark.parametrize(("waited_ns", "off_ns"), [(100_000, 80_000), (201_000, 402_000)])
def test_few_waits_are_spread_over_the_time_at_the_median_but_not_in_a_tail(waited_ns: int, off_ns: int) -> None:
    rows = timed(
        1_000_000, 1_000_000, 1_000_000, network_ns=400_000, network_crossings=0, stalled_ns=0,
        core_wait_ns=waited_ns, ideal_ns=100_000,
    )  # fmt: skip
    network = split_of(rows).network
    assert network.at_best.cct_p50_ns == max(400_000 - off_ns, 100_000)
    assert network.perfect.cct_p50_ns == 100_000 + off_ns
    assert network.at_best.cct_max_ns == max(400_000 - 2 * waited_ns, 100_000), "a stall of two agents can all be in it"


@pytest.mark.parametrize(
    ("port_ns", "at_best_ns", "perfect_ns"),
    [
        (170_500, 170_500, 145_000),  # of 187 ms, a port at 85 % takes 170.5, whatever the agents waited for
        (145_000, 145_000, 145_000),  # the agents waited, and the port was as fast as it should be
        (0, 145_000, 245_000),  # not known
        (300_000, 187_000, 145_000),
    ],
)
def test_what_a_port_takes_at_its_usual_pace_is_the_devices_however_long_agents_waited(
    port_ns: int, at_best_ns: int, perfect_ns: int
) -> None:
    rows = timed(
        190_000, 190_000, 190_000, network_ns=187_000, network_crossings=0, stalled_ns=40_000,
        core_wait_ns=50_000, ideal_ns=145_000, port_ns=port_ns,
    )  # fmt: skip
    network = split_of(rows).network
    assert network.at_best.cct_p50_ns == at_best_ns
    assert network.perfect.cct_p50_ns == perfect_ns


def test_less_than_half_of_the_measurements_say_nothing_about_the_network() -> None:
    one = {"network_ns": 50, "network_crossings": 1, "stalled_ns": 0}
    assert split_of([*timed(100, **one), *timed(100, 100)[2:]]).network is not None
    rows = [*timed(100, **one), *timed(0, 100, 100)[2:]]
    assert split_of(rows).network is None
    assert split_of(rows).tester_percent is None
