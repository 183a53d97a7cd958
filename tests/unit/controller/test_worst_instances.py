"""The slowest instance of each class, found while a run goes on, is the one that the statistics find."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from emulator.controller.recording.worst_instances import WorstInstances
from emulator.results.statistics.samples.classes import class_rows
from emulator.results.statistics.samples.collectives import merge
from tests.support.runs import Row, collective, columns, pair, table

HOSTS = (0, 1)


def noted(worst: WorstInstances, rows: list[Row]) -> list[int]:
    return worst.note(rows[0]["iteration"], columns(rows))


def test_only_a_slower_one_is_wanted_and_only_when_all_members_are_done() -> None:
    worst = WorstInstances(HOSTS)
    first, second = collective([0, 5], [50, 60], instance=0)
    assert noted(worst, [first]) == []
    assert noted(worst, [second]) == [0]
    assert noted(worst, collective([0, 40], [60, 90], instance=1)) == []  # 50: its skew does not count
    assert noted(worst, collective([0, 0], [56, 10], instance=2, iteration=1)) == [2]
    assert worst.found == {(1, 2)}


def test_every_class_has_its_own() -> None:
    worst = WorstInstances((0, 0, 1))
    samples = [
        *collective([0, 0], [10, 10], instance=0),
        *collective([0, 0], [9, 9], instance=1, size_bytes=7),
        *collective([0, 0], [8, 8], instance=2, algorithm="direct"),
        *collective([0, 0], [7, 7], instance=3, kind="all_gather"),
        *(one | {"rank": one["rank"] + 1} for one in collective([0, 0], [6, 6], instance=4)),
        *pair(0, 5, instance=5),
    ]
    assert noted(worst, samples) == [0, 1, 2, 3, 4, 5]


def test_warm_up_and_what_completes_at_once_do_not_count() -> None:
    worst = WorstInstances(HOSTS)
    assert noted(worst, collective([0, 0], [9, 9], iteration=-1)) == []
    assert noted(worst, collective([0, 0], [9, 9], size_bytes=0)) == []
    assert noted(worst, collective([0], [9])) == []
    assert noted(worst, collective([0, 0], [9, 9], size_bytes=0, kind="barrier")) == [0]


times = st.lists(st.integers(1, 50), min_size=2, max_size=2)


@given(
    st.lists(st.tuples(st.sampled_from(["all_reduce", "pair"]), st.integers(1, 2), times, times), max_size=12),
    st.data(),
)
def test_it_is_the_slowest_of_the_statistics(shapes: list[tuple[str, int, list[int], list[int]]], data: Any) -> None:
    rows: list[Row] = []
    for number, (kind, size, posts, takes) in enumerate(shapes):
        of = {"instance": number % 4, "iteration": number // 4, "size_bytes": size}
        if kind == "pair":
            rows += pair(posts[0], posts[0] + takes[0], **of)
        else:
            last = max(posts)
            rows += collective(posts, [last + one for one in takes], **of)
            rows[-1]["arrival_ns"] = last + (takes[0] + 1) // 2  # before the last acknowledgement
    worst = WorstInstances(HOSTS)
    for iteration in {row["iteration"] for row in rows}:
        for row in data.draw(st.permutations([row for row in rows if row["iteration"] == iteration])):
            noted(worst, [row])
    merged = merge(table(rows), HOSTS)
    slowest = {(key.collective, key.size_bytes): int(merged.cct_ns[which].max()) for key, which in class_rows(merged)}
    found = {(int(merged.iteration[at]), int(merged.instance[at])): int(merged.cct_ns[at]) for at in range(len(merged))}
    assert sorted(found[one] for one in worst.found) == sorted(slowest.values())
