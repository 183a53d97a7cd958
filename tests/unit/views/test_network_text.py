from emulator.statistics.network_traffic import NetworkTraffic, PortLoad
from emulator.statistics.worst_flows import LossFocus
from emulator.views.network_text import describe_flows, describe_loss_focus, describe_network, gbit_cell


def test_network_engineers_read_gigabits_and_percent_of_line_rate() -> None:
    port = PortLoad("h0:eth0", "sent", 0.95e9, 10**9)
    assert describe_network(NetworkTraffic(0.5, 1 << 20, 1e6, port)) == (
        "1 MiB of the payload of an iteration (50 %); h0:eth0 sent 0.950 Gbit/s of payload, 95.0 % of line rate"
    )


def test_unknown_figures_are_left_out() -> None:
    assert describe_network(NetworkTraffic(1.0, 4096, None, None)) == "4 KiB of the payload of an iteration (100 %)"
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
