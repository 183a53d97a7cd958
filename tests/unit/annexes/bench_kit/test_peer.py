"""Results of a test with a peer in the terminal."""

from emulator.annexes.bench_kit.peer import render, render_echo
from emulator.flows.perftest_echo import EchoResult, Exchange, make_echo
from emulator.flows.perftest_parameters import TestVerb, make_test
from emulator.flows.perftest_results import BandwidthReport, PeerResult, Received, Sent
from tests.support.terminal import rows_of, shown


def table(verb: TestVerb, *, sent: Sent, received: Received, peer: BandwidthReport | None = None) -> str:
    """What a user sees."""
    result = PeerResult(
        test=make_test(verb, size_bytes=1000, iterations=100, queue_pairs=1 if verb.is_latency else 2),
        role="client",
        host="192.0.2.1",
        peer_host="192.0.2.2",
        peer_version="6.06",
        sent=sent,
        received=received,
        peer=peer,
    )
    return " ".join(shown(render(result)).split("\n\n")[0].split()) + "\n" + shown(render(result))


def test_both_directions_and_the_figures_of_the_peer_have_a_row_each() -> None:
    sent = Sent(messages=200, bytes=200_000, duration_ns=1_000_000, packets=210, retransmits=10, timeouts=1, naks=2)
    received = Received(
        messages=100, bytes=100_000, bytes_after_first=99_000, duration_ns=990_000, duplicates=3, naks=4
    )
    peer = BandwidthReport(size_bytes=1000, iterations=100, peak=0.0, average=0.0, messages_per_us=0.1)
    text = table(TestVerb.WRITE, sent=sent, received=received, peer=peer)
    rows = [row[-4:] for row in rows_of(text)]
    assert any("200" in row and "1.60" in row for row in rows_of(text)), rows
    assert any("100,000" in row and "0.800" in row for row in rows_of(text)), rows
    assert "sent by the peer, it says" in text
    assert "packets sent 210, of these again 10" in text
    assert "NAKs received 2, sent 4" in text
    assert "2 queue pairs" in text


def test_rows_of_directions_without_traffic_are_absent() -> None:
    text = table(TestVerb.READ, sent=Sent(messages=5, bytes=5000, duration_ns=100), received=Received())
    assert "read by this end" in text
    assert "read by the peer" not in text


def test_a_latency_names_its_percentiles_and_what_it_is() -> None:
    sent = Sent(messages=3, bytes=3000, duration_ns=9000, round_trips_ns=(2000, 2000, 4000))
    assert "3 samples (half a round trip): median 1 µs" in table(TestVerb.SEND_LATENCY, sent=sent, received=Received())
    assert "(a round trip): median 2 µs" in table(TestVerb.READ_LATENCY, sent=sent, received=Received())


def test_dropped_packets_are_listed_by_reason() -> None:
    text = table(TestVerb.SEND, sent=Sent(), received=Received(messages=1, bytes=1, dropped={"icrc": 7}))
    assert "dropped: 7 icrc" in text


def test_rping_says_how_many_rounds_had_the_right_data_and_how_long_they_took() -> None:
    test = make_echo(Exchange.RPING, size_bytes=100, rounds=3, path_mtu=None, is_client=True)
    result = EchoResult(
        test=test, role="client", host="192.0.2.1", peer_host="192.0.2.2", path_mtu=1024, rounds=3,
        round_trips_ns=(2000, 2000, 4000), packets=7, retransmits=1,
    )  # fmt: skip
    text = shown(render_echo(result))
    assert text.startswith("rping -s at 192.0.2.2: this end, 192.0.2.1, is the client; 100 B a round")
    assert "3 rounds complete, all data right" in text
    assert "round: median 2 µs" in text
    assert "packets sent 7, of these again 1" in text
