"""What a test with a peer is said to have shown."""

import pytest

from emulator.flows.perftest_parameters import TestVerb
from emulator.flows.perftest_results import BandwidthReport, Received, Sent
from tests.support.flow_results import of_client


def test_goodput_is_payload_over_the_time_it_took() -> None:
    assert Sent(messages=10, bytes=1000, duration_ns=1000).bytes_per_s == 1e9
    assert Received(messages=10, bytes=1000, bytes_after_first=900, duration_ns=1000).bytes_per_s == pytest.approx(
        0.9e9
    )


def test_what_was_not_measured_has_no_goodput() -> None:
    assert Sent().bytes_per_s is None
    assert Received(messages=1, bytes=100).bytes_per_s is None


@pytest.mark.parametrize(
    ("verb", "halves"), [(TestVerb.WRITE_LATENCY, 2), (TestVerb.SEND_LATENCY, 2), (TestVerb.READ_LATENCY, 1)]
)
def test_a_latency_is_half_a_round_trip_and_of_reads_a_whole_one(verb: TestVerb, halves: int) -> None:
    latency = of_client(verb, sent=Sent(messages=5, round_trips_ns=(100, 200, 300, 400, 1000))).latency
    assert (latency.count, latency.least, latency.median, latency.largest) == (
        5,
        100 / halves,
        300 / halves,
        1000 / halves,
    )
    assert 400 / halves < latency.p99 < 1000 / halves


def test_a_bandwidth_test_has_no_latency() -> None:
    assert of_client(TestVerb.WRITE, sent=Sent(messages=3, bytes=3, duration_ns=5)).latency is None


def test_the_document_has_units_in_its_names_and_the_rate_of_the_peer_in_bytes() -> None:
    peer = BandwidthReport(size_bytes=4096, iterations=7, peak=0.0, average=1.0, messages_per_us=0.5)
    document = of_client(TestVerb.WRITE, sent=Sent(messages=2, bytes=20, duration_ns=10), peer=peer).to_json()
    assert document["peer_report"] == {
        "size_bytes": 4096,
        "messages": 7,
        "messages_per_s": 500_000.0,
        "bytes_per_s": 500_000.0 * 4096,
    }
    assert document["sent"]["payload_bytes"] == 20  # type: ignore[index]
    assert document["latency_ns"] is None
