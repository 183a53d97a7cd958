from __future__ import annotations

from typing import Any

import pytest

from emulator.results.statistics.class_summary import summarise_classes
from emulator.results.statistics.samples.collectives import merge
from emulator.results.statistics.traffic.port_sharing import other_payload
from tests.support.runs import Row, collective, table

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
