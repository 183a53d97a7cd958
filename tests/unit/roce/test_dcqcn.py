"""The equations of Zhu et al., SIGCOMM 2015, by hand."""

import pytest

from emulator.errors import PlanError
from emulator.roce.dcqcn import PRESET_NAMES, DcqcnParameters, NotificationPoint, ReactionPoint, preset

G = 1 / 256
LINE = 40e9


def paper() -> ReactionPoint:
    return ReactionPoint(preset("paper", line_rate_bps=LINE))


def test_a_flow_starts_at_line_rate_and_stays_there_unless_told() -> None:
    point = paper()
    point.sent(10**9, 10**9)
    assert point.rate_bps(10**10) == LINE
    assert point.alpha == 1


def test_equation_1_cuts_by_half_alpha() -> None:
    point = paper()
    point.notified(0)
    assert (point.target_bps, point.current_bps) == (LINE, LINE / 2)
    assert point.alpha == (1 - G) * 1 + G
    point.alpha = 0.5
    point.notified(10_000)
    assert (point.target_bps, point.current_bps) == (LINE / 2, LINE / 2 * 0.75)
    assert point.alpha == (1 - G) * 0.5 + G


def test_equation_2_lets_alpha_decay_every_55_us_without_a_cnp() -> None:
    point = paper()
    point.notified(0)
    point.rate_bps(54_999)
    assert point.alpha == 1
    point.rate_bps(3 * 55_000)
    assert point.alpha == pytest.approx((1 - G) ** 3, rel=1e-12)


def test_equation_3_recovers_to_the_target_in_halves() -> None:
    point = paper()
    point.notified(0)
    assert point.rate_bps(55_000) == LINE * 3 / 4
    assert point.rate_bps(2 * 55_000) == LINE * 7 / 8
    assert point.target_bps == LINE


def test_equation_4_raises_the_target_once_recovery_is_over() -> None:
    point = paper()
    point.notified(0)
    point.notified(0)  # R_T = 20 Gbit/s, R_C = 10 Gbit/s
    fourth = 20e9 - 10e9 / 2**4
    assert point.rate_bps(4 * 55_000) == fourth
    assert point.target_bps == 20e9
    assert point.rate_bps(5 * 55_000) == (20e9 + 40e6 + fourth) / 2
    assert point.target_bps == 20e9 + 40e6


def test_the_byte_counter_recovers_too_and_both_beyond_f_are_hyper() -> None:
    point = paper()
    point.notified(0)
    point.notified(0)
    point.sent(4 * 10_000_000, 1)
    assert point.current_bps == 20e9 - 10e9 / 2**4
    point.sent(2 * 10_000_000, 2)  # 5th and 6th: additive
    assert point.target_bps == 20e9 + 2 * 40e6
    point.rate_bps(6 * 55_000)  # timer: 1st … 5th additive (bytes are beyond F, the timer is not); the 6th is hyper
    assert point.target_bps == 20e9 + 7 * 40e6 + 400e6


def test_cuts_are_limited_in_depth_and_in_time() -> None:
    point = ReactionPoint(
        DcqcnParameters(line_rate_bps=LINE, largest_cut=0.1, decrease_interval_ns=1000, lowest_rate_bps=33e9)
    )
    point.notified(0)
    assert point.current_bps == LINE * 0.9
    point.notified(999)
    assert point.current_bps == LINE * 0.9
    point.notified(1000)
    assert point.current_bps == 33e9


def test_the_connectx_preset_goes_to_10_gbit_on_the_first_cnp() -> None:
    point = ReactionPoint(preset("connectx", line_rate_bps=100e9))
    point.notified(0)
    assert (point.target_bps, point.current_bps) == (100e9, 10e9)


@pytest.mark.parametrize("name", PRESET_NAMES)
def test_presets_state_effective_values_with_units(name: str) -> None:
    described = preset(name, line_rate_bps=LINE).described()
    assert described["line_rate_bps"] == (LINE, "bit/s")
    assert described["cnp_gap_ns"][1] == "ns"
    assert described["byte_counter_bytes"][1] == "bytes"


def test_otg_values_follow_the_line_rate() -> None:
    values = preset("otg", line_rate_bps=100e9)
    assert (values.lowest_rate_bps, values.additive_bps) == pytest.approx((2e6, 1e6))


def test_on_the_paper_s_own_line_its_scaled_values_are_its_values() -> None:
    assert preset("paper-scaled", line_rate_bps=40e9) == preset("paper", line_rate_bps=40e9)


def test_on_a_slower_line_everything_takes_longer_and_no_byte_more() -> None:
    paper, scaled = preset("paper", line_rate_bps=40e9), preset("paper-scaled", line_rate_bps=100e6)
    assert scaled.increase_timer_ns == 400 * paper.increase_timer_ns
    assert scaled.cnp_gap_ns == 400 * paper.cnp_gap_ns
    assert scaled.additive_bps == pytest.approx(paper.additive_bps / 400)
    assert scaled.byte_counter_bytes == paper.byte_counter_bytes
    assert scaled.alpha_gain == paper.alpha_gain


def test_an_unknown_preset_is_named() -> None:
    with pytest.raises(PlanError, match="'nonesuch'; there are: paper"):
        preset("nonesuch", line_rate_bps=LINE)


def test_cnps_keep_their_gap() -> None:
    point = NotificationPoint(50_000)
    assert [point.marked(now) for now in (0, 1, 49_999, 50_000, 99_999, 100_000)] == [
        True, False, False, True, False, True,
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["paper", "connectx", "hpcc-simulator", "paper-scaled"])
def test_alpha_does_not_decay_while_cnps_come_as_often_as_the_preset_lets_them(name: str) -> None:
    parameters = preset(name, line_rate_bps=LINE)
    point, now = ReactionPoint(parameters), 0
    for _ in range(1_000):
        point.notified(now)
        now += parameters.cnp_gap_ns
    assert point.alpha == pytest.approx(1)
    point.rate_bps(now - parameters.cnp_gap_ns + 3 * parameters.alpha_timer_ns)
    assert point.alpha == pytest.approx((1 - parameters.alpha_gain) ** 3)


def test_a_first_cnp_cuts_a_line_that_is_slower_than_the_preset_s_first_rate() -> None:
    point = ReactionPoint(preset("connectx", line_rate_bps=1e9))
    point.notified(0)
    assert (point.target_bps, point.current_bps) == (1e9, 0.5e9)
