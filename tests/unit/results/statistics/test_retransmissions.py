from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from emulator.control.parameter import Parameter
from emulator.results.run_folder.manifest import HostFacts
from emulator.results.statistics.traffic.retransmissions import lost_packets, receiver_drops, unexplained
from tests.support.runs import manifest as make_manifest

COUNTERS = {"retransmits": 100, "duplicates": 30, "out_of_order": 60}


def test_what_no_receiver_reported_was_lost() -> None:
    assert lost_packets(COUNTERS, make_manifest()) == 10


def test_a_receiver_that_keeps_early_packets_discards_none() -> None:
    for parameters in ({"roce.receiver": Parameter("ooo")}, {"roce.multipath": Parameter(4)}):
        assert lost_packets(COUNTERS, make_manifest(parameters=parameters)) == 70


def test_loss_is_unknown_for_a_transport_without_these_counters() -> None:
    assert lost_packets({"packets": 5}, make_manifest()) is None


@given(st.integers(0, 1000), st.integers(0, 1000), st.integers(0, 1000))
def test_loss_is_never_negative(retransmits: int, duplicates: int, early: int) -> None:
    counters = {"retransmits": retransmits, "duplicates": duplicates, "out_of_order": early}
    lost = lost_packets(counters, make_manifest())
    assert lost is not None
    assert 0 <= lost <= retransmits


def test_drops_of_receiving_hosts_are_summed_and_unknown_without_facts() -> None:
    facts = {"window": Parameter(1, "bytes")}
    hosts = (HostFacts("a", transport=facts | {"dropped.queue": Parameter(3)}), HostFacts("b", transport=facts))
    assert receiver_drops(make_manifest(hosts=hosts)) == 3
    assert receiver_drops(make_manifest(hosts=hosts[1:])) == 0
    assert receiver_drops(make_manifest(hosts=(HostFacts("c"),))) is None


def test_loss_is_explained_by_the_device_or_by_a_receiver() -> None:
    assert unexplained(10, COUNTERS, device=10, receivers=0) == 0
    assert unexplained(10, COUNTERS, device=4, receivers=0) == 6
    assert unexplained(10, COUNTERS, device=0, receivers=1) == 0
    assert unexplained(10, COUNTERS | {"dropped_icrc": 7}, device=0, receivers=0) == 3


def test_loss_at_a_device_that_nobody_monitored_stays_open() -> None:
    assert unexplained(10, COUNTERS, device=None, receivers=0) is None
    assert unexplained(0, COUNTERS, device=None, receivers=0) == 0
    assert unexplained(None, {}, device=0, receivers=0) is None
