"""Times of flows and requests from samples."""

from typing import Any

import pytest

from emulator.results.statistics.class_summary import summarise_classes
from emulator.results.statistics.samples.collectives import merge
from emulator.results.statistics.samples.transfers import (
    NO_TRANSFERS,
    TransferSummary,
    TransferTimes,
    other_payload,
    summarise_transfers,
)
from tests.support.runs import Row, collective, pair, table


def _part(request: int, post: int, arrival: int, *, arrived_at: int, instance: int, iteration: int = 0) -> list[Row]:
    """One of the messages of a request, from rank 0 to rank 1."""
    send, recv = pair(post, arrival, received_post=arrived_at, instance=instance, iteration=iteration)
    return [send | {"name": f"request.{request}.kv.to.1"}, recv | {"name": f"request.{request}.kv.from.0"}]


def _summary(*parts: list[Row]) -> TransferSummary:
    samples = table([row for part in parts for row in part])
    return summarise_transfers(samples, merge(samples))


def test_a_request_lasts_until_the_last_byte_of_all_its_messages() -> None:
    found = _summary(
        _part(7, 100, 180, arrived_at=40, instance=0),
        _part(7, 110, 250, arrived_at=41, instance=1),
        _part(8, 300, 310, arrived_at=90, instance=2),
    )
    assert (found.flows, found.requests, found.incomplete_requests) == (3, 2, 0)
    assert found.fct == TransferTimes(80.0, None, 140.0)
    assert found.kv_latency == TransferTimes(10.0, None, 150.0)
    assert found.ttft == TransferTimes(210.0, None, 220.0)


def test_the_same_request_of_two_iterations_counts_twice() -> None:
    parts = [_part(7, 10, 20 + n, arrived_at=5, instance=0, iteration=n) for n in range(2)]
    found = _summary(*parts)
    assert found.requests == 2
    assert found.ttft == TransferTimes(15.0, None, 16.0)


def test_a_request_without_all_its_samples_is_left_out() -> None:
    whole = [*_part(7, 10, 20, arrived_at=5, instance=0), *_part(7, 10, 900, arrived_at=5, instance=1)]
    lost_message = _part(7, 10, 20, arrived_at=5, instance=0, iteration=1)
    lost_receive = _part(8, 10, 20, arrived_at=5, instance=2)[:1]
    found = _summary(whole, lost_message, lost_receive)
    assert (found.requests, found.incomplete_requests) == (1, 2)
    assert found.ttft.max_ns == 895.0


def test_sends_of_other_traces_are_flows_without_requests() -> None:
    found = _summary(pair(10, 60))
    assert (found.flows, found.requests, found.fct.p50_ns) == (1, 0, 50.0)
    assert found.kv_latency == found.ttft == TransferTimes(None, None, None)


def test_without_a_send_there_is_nothing() -> None:
    assert _summary(collective([0, 0], [5, 5])) == NO_TRANSFERS


def test_a_receive_that_was_posted_late_does_not_shorten_the_wait() -> None:
    found = _summary(_part(1, 10, 20, arrived_at=15, instance=0))
    assert found.ttft == found.kv_latency == TransferTimes(10.0, None, 10.0)


def test_times_below_zero_are_left_out() -> None:
    found = _summary(_part(1, 10, 5, arrived_at=3, instance=0))
    assert found.kv_latency == TransferTimes(None, None, None)
    assert found.ttft.max_ns == 2.0


HOSTS = [0, 0, 1, 1]


def between(ranks: tuple[int, int], begin: int, end: int, instance: int, size: int = 1000) -> list[Row]:
    """An all-reduce of two ranks on two hosts."""
    rows = collective([begin, begin], [end, end], instance=instance, bytes_sent=size, bytes_received=size)
    for row, rank in zip(rows, ranks, strict=True):
        row["rank"] = rank
    return rows


def shared(*rows: list[Row], **topology: Any) -> list[float]:
    samples = table([row for one in rows for row in one])
    merged = merge(samples, HOSTS)
    return other_payload(samples, merged, {"host_index": HOSTS} | topology).tolist()


def test_what_is_alone_at_its_ports_shares_nothing() -> None:
    assert shared(between((0, 2), 0, 100, 0), between((1, 3), 100, 200, 1)) == pytest.approx([0, 0])


def test_others_count_as_far_as_they_overlap() -> None:
    assert shared(between((0, 2), 0, 100, 0), between((1, 3), 0, 100, 1)) == pytest.approx([1, 1])
    assert shared(between((0, 2), 0, 100, 0), between((1, 3), 75, 175, 1)) == pytest.approx([0.25, 0.25])
    small, large = shared(between((0, 2), 0, 100, 0, size=100), between((1, 3), 0, 100, 1))
    assert (small, large) == pytest.approx((10, 0.1))


def test_others_at_other_ports_do_not_count_unless_there_is_a_fabric_between() -> None:
    rows = between((0, 2), 0, 100, 0), between((1, 3), 0, 100, 1)
    ports = {"interface_index": [0, 1, 0, 1]}
    assert shared(*rows, **ports) == pytest.approx([0, 0])
    fabric = {"network": {"switches": [{"name": "leaf"}, {"name": "spine"}]}}
    assert shared(*rows, **ports, **fabric) == pytest.approx([1, 1])


def test_what_stays_in_a_host_crosses_no_port() -> None:
    assert shared(between((0, 1), 0, 100, 0), between((0, 2), 0, 100, 1)) == pytest.approx([0, 0])


def test_a_class_that_shares_its_ports_has_no_perfect_time() -> None:
    samples = table([*between((0, 2), 0, 100, 0), *between((1, 3), 0, 100, 1)])
    merged = merge(samples, HOSTS)
    others = other_payload(samples, merged, {"host_index": HOSTS})
    (found,) = summarise_classes(merged, others=others)
    assert (found.shares_ports, found.perfect) == (True, {})
    (alone,) = summarise_classes(merged)
    assert not alone.shares_ports
