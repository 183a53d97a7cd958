"""What is reported of a perftest alongside the job."""

from agents.annexes.peer.perftest import figures_of
from emulator.flows.perftest_parameters import TestVerb
from emulator.flows.perftest_results import BandwidthReport, Received, Sent
from tests.support.flow_results import of_client

REPORT = BandwidthReport(size_bytes=1000, iterations=5, peak=0.0, average=1.0, messages_per_us=0.002)


def test_both_directions_stand_beside_what_the_peer_reports() -> None:
    sent = Sent(messages=4, bytes=4000, start_ns=7, duration_ns=1000, packets=6, retransmits=2, naks=1)
    received = Received(messages=5, bytes=5000, bytes_after_first=4000, start_ns=9, duration_ns=2000, duplicates=3)
    ours, theirs, report = figures_of(of_client(TestVerb.SEND, sent=sent, received=received, peer=REPORT))
    assert (ours.direction, ours.observer, ours.messages, ours.start_ns, ours.bytes_per_s) == (
        "sent", "charkha", 4, 7, 4e9,
    )  # fmt: skip
    assert (ours.retransmits, ours.naks, ours.duplicates) == (2, 1, None)
    assert (theirs.direction, theirs.bytes, theirs.bytes_per_s, theirs.duplicates) == ("received", 5000, 2e9, 3)
    assert (report.observer, report.messages, report.bytes, report.bytes_per_s) == ("peer", 5, 5000, 2e6)


def test_reads_are_read_or_served_and_have_latencies() -> None:
    (ours,) = figures_of(of_client(TestVerb.READ_LATENCY, sent=Sent(messages=2, packets=2, round_trips_ns=(100, 300))))
    assert (ours.direction, ours.latency_median_ns) == ("read", 200)
    (served,) = figures_of(of_client(TestVerb.READ, received=Received(messages=3, bytes=30)))
    assert (served.direction, served.duration_ns, served.bytes_per_s) == ("served", None, None)


def test_a_flow_that_has_not_begun_has_no_figures() -> None:
    assert list(figures_of(of_client(TestVerb.WRITE))) == []
