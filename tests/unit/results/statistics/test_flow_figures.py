from pathlib import Path

import pytest

from emulator.control.observations import FlowCounters
from emulator.results.statistics.summary import summarise
from emulator.results.statistics.traffic.flow_figures import GOODPUT, RTT, FlowKey, RunFlows
from tests.support.runs import collective, ranks, write_run

FLOWS = (
    FlowCounters(0, 1, bytes=3000, qpn=1, packets=3, rtt_ns=40_000, retransmits=2),
    FlowCounters(1, 0, bytes=500, qpn=2, packets=1),
    FlowCounters(1, 0, bytes=0, qpn=3, packets=1),
)


def figures(folder: Path, communication: int) -> RunFlows:
    spent = {n: ranks((0, 100), (0, 100), communication=communication) for n in (-1, 0)}
    topology = {
        "hosts": [{"name": "h0", "interfaces": [{"name": "eth0"}]}, {"name": "h1", "interfaces": [{"name": "eth0"}]}],
        "host_index": [0, 1],
    }
    run = write_run(folder / "run", collective([0, 0], [9, 9]), iterations=spent, flows=FLOWS, topology=topology)
    found = summarise(run).flows
    assert found is not None
    return found


def test_goodput_is_over_the_time_in_which_the_sender_communicated_warm_up_included(tmp_path: Path) -> None:
    found = list(figures(tmp_path, 50).readings(GOODPUT))
    assert [value for _, value in found] == pytest.approx([3000 / 100e-9, 500 / 100e-9])
    assert [key.qpn for key, _ in found] == [1, 2]  # the flow without payload has none


def test_flows_are_named_by_their_ends_and_unknown_figures_are_none(tmp_path: Path) -> None:
    found = figures(tmp_path, 0)
    first, second = FlowKey(0, 1, 1, "h0:eth0", "h1:eth0"), FlowKey(1, 0, 2, "h1:eth0", "h0:eth0")
    assert list(found.readings(GOODPUT)) == [(first, None), (second, None)]
    assert [value for _, value in found.readings(RTT)] == [40_000, None, None]
    assert next(found.readings("retransmits")) == (first, 2)
