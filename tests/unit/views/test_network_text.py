import pytest

from emulator.planner.forecast import Forecast
from emulator.results.statistics.class_summary import ClassSummary
from emulator.results.statistics.traffic.network_traffic import NetworkTraffic, PortLoad
from emulator.results.statistics.worst.worst_flows import LossFocus
from emulator.views.network_text import (
    describe_flows,
    describe_forecast,
    describe_loss_focus,
    describe_network,
    explain_ideal,
    gbit_cell,
)


def test_network_engineers_read_gigabits_and_percent_of_line_rate() -> None:
    port = PortLoad("h0:eth0", "sent", 0.95e9, 10**9)
    assert describe_network(NetworkTraffic(0.5, 1 << 20, 1e6, port)) == (
        "1.05 MB of the payload of an iteration (50 %); h0:eth0 sent 0.950 Gbit/s of payload, 95.0 % of line rate"
    )


def test_unknown_figures_are_left_out() -> None:
    assert describe_network(NetworkTraffic(1.0, 4096, None, None)) == "4.10 kB of the payload of an iteration (100 %)"
    assert "line rate" not in describe_network(NetworkTraffic(1.0, 4096, 1.0, PortLoad("a:b", "sent", 8e9, None)))
    assert gbit_cell(8e9) == "8.00 Gbit/s"


def test_losses_name_one_end_or_both() -> None:
    assert describe_loss_focus(LossFocus("a:1", "b:2", 9, 10)) == "9 of 10 lost packets from a:1 to b:2"
    of_device = describe_loss_focus(LossFocus("", "b:2", 9, 10, "sw0:p1"))
    assert of_device == "9 of 10 frames that the device dropped, at sw0:p1 (b:2)"
    in_queues = describe_loss_focus(LossFocus("", "b:2", 9, 10, "b:2", "in queues"))
    assert in_queues == "9 of 10 frames that the device dropped in queues, at b:2"
    assert describe_loss_focus(LossFocus("", "b:2", 9, 10)) == "9 of 10 lost packets to b:2"


def test_the_line_of_flows_shows_loss_always_and_the_rest_where_there_was_some() -> None:
    counters = {"packets": 12_345, "retransmits": 0, "timeouts": 0, "naks": 0, "out_of_order": 3}
    assert describe_flows(counters) == "packets 12,345, retransmissions 0, timeouts 0, out of order 3"
    assert describe_flows({}) == ""


def row(percent: float | None, cct_ns: float, size_bytes: int = 1 << 20) -> ClassSummary:
    return ClassSummary(
        "all_reduce", 8, size_bytes, "ring", 1, 9, None, None, percent, cct_ns, None, None, None, None, None
    )


def test_more_than_the_ideal_is_explained_where_it_shows_as_more_than_100() -> None:
    (text,) = explain_ideal([row(101.0, 1e6), row(100.2, 1e6), row(97.0, 1e6)])
    assert text.startswith("1 class is above 100 % of ideal: a port sends what its bucket holds at once")


def test_small_messages_far_from_their_ideal_are_explained_by_latency() -> None:
    (text,) = explain_ideal([row(0.006, 700_000, 4), row(5.0, 500_000, 4096), row(4.0, 9e8)])
    assert text.startswith("2 classes of up to 4 KiB cannot come near 100 % of ideal")


def test_ordinary_shares_need_no_explanation() -> None:
    assert not [*explain_ideal([row(92.0, 1e6), row(4.0, 9e8), row(None, 1e6)])]


MOVES = "plays 6 iterations (1 warm-up) of 3 MiB payload from 2 ranks (at most 2 MiB each) in 14 communications: 18 MiB"


@pytest.mark.parametrize(
    ("least_ns", "has_rates", "time"),
    [
        (3_000_000, True, "at least 18 ms at the rates of the ports"),
        (3_000_000, False, "at least 18 ms of compute, the ports have no rate"),
        (0, False, "no estimate of the time, the ports have no rate"),
    ],
)
def test_bytes_and_the_shortest_time_are_on_one_line(least_ns: int, has_rates: bool, time: str) -> None:
    found = Forecast(6, 1, 14, [1 << 20, 2 << 20], least_ns, has_rates)
    assert describe_forecast(found) == f"{MOVES} in total; {time}"
