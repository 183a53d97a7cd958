from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.errors import ResultError
from emulator.results.run_folder.manifest import LAST_DONE
from emulator.results.statistics.samples.collectives import merge
from emulator.results.statistics.samples.measured_rows import UNKNOWN
from emulator.trace.meaning.model import CommKind
from tests.support.runs import Row, collective, pair, row, table

K = CommKind


def arriving(posts: list[int], dones: list[int], arrivals: list[int | None], **fields: Any) -> list[Row]:
    rows = collective(posts, dones, **fields)
    return [one | {"arrival_ns": arrival} for one, arrival in zip(rows, arrivals, strict=True)]


def test_a_collective_is_timed_from_its_last_post_to_its_last_arrival() -> None:
    rows = arriving([100, 250, 180], [9_000, 700, 800], [600, 640, 650])  # an acknowledgement waited 8 µs
    merged = merge(table(rows))
    assert (merged.cct_ns[0], merged.span_ns[0], merged.skew_ns[0]) == (400, 550, 150)
    assert merged.mean_ns[0] == 400 - (50 + 10 + 0) // 3
    assert merged.members[0] == 3


def test_a_member_that_receives_nothing_does_not_end_a_collective() -> None:
    root_waits_for_acknowledgements = arriving([0, 10, 20], [900, 300, 320], [None, 300, 320], kind="broadcast")
    merged = merge(table(root_waits_for_acknowledgements))
    assert (merged.cct_ns[0], merged.mean_ns[0]) == (300, 300 - (0 + 20 + 0) // 3)


def test_if_nothing_arrives_a_collective_lasts_until_its_last_done() -> None:
    merged = merge(table(collective([100, 250, 180], [900, 700, 800])))
    assert (merged.cct_ns[0], merged.span_ns[0], merged.skew_ns[0]) == (650, 800, 150)


def test_older_runs_are_timed_until_the_last_done() -> None:
    rows = arriving([100, 250, 180], [9_000, 700, 800], [600, 640, 650])
    merged = merge(table(rows), until=LAST_DONE)
    assert (merged.cct_ns[0], merged.span_ns[0]) == (8_750, 8_900)
    assert merged.mean_ns[0] == 8_750 - (0 + 8_300 + 8_200) // 3


def test_a_pair_is_timed_from_the_post_of_the_send_to_the_arrival_of_the_last_byte() -> None:
    merged = merge(table(pair(100, 400, received_post=350)))
    assert len(merged) == 1
    assert (merged.cct_ns[0], merged.members[0], merged.kind[0]) == (300, 2, K.SEND)
    assert (merged.span_ns[0], merged.skew_ns[0]) == (300, 250)


@pytest.mark.parametrize("kind", [K.STORAGE_WRITE, K.STORAGE_READ])
def test_a_storage_operation_is_timed_at_its_rank_alone(kind: CommKind) -> None:
    fields = {"kind": kind.label, "group_size": 1, "peer": 4, "post_ns": 100, "done_ns": 450}
    merged = merge(table([row(**fields)]), hosts=(0, 0))
    assert (merged.cct_ns[0], merged.members[0], merged.kind[0], merged.incomplete) == (350, 1, kind, 0)
    assert merged.between_hosts[0]
    assert not merge(table([row(**fields)])).between_hosts[0]


def test_a_pair_of_no_bytes_is_timed_like_a_collective() -> None:
    send, recv = pair(100, 400, received_post=350)
    merged = merge(table([send, recv | {"arrival_ns": None}]))
    assert merged.cct_ns[0] == 405 - 350


def test_rows_of_several_instances_and_iterations_can_come_in_any_order() -> None:
    rows = [
        one
        for iteration in (-1, 0, 1)
        for instance in (0, 1, 2)
        for one in collective([0, 0], [iteration * 10 + 20, instance + 50], iteration=iteration, instance=instance)
    ]
    rng = np.random.default_rng(7)
    merged = merge(table([rows[at] for at in rng.permutation(len(rows))]))
    assert merged.iteration.tolist() == [-1] * 3 + [0] * 3 + [1] * 3
    assert merged.instance.tolist() == [0, 1, 2] * 3
    assert merged.cct_ns.tolist() == [50, 51, 52] * 3


def test_a_measurement_without_all_members_is_left_out_and_counted() -> None:
    whole, cut = collective([0, 0], [10, 20]), collective([0, 0], [10, 20], instance=1)[:1]
    lonely = pair(0, 9, instance=2)[:1]
    merged = merge(table([*whole, *cut, *lonely]))
    assert (merged.instance.tolist(), merged.incomplete) == ([0], 2)


def test_two_sends_are_not_a_pair() -> None:
    send, _ = pair(0, 9)
    assert merge(table([send, send | {"rank": 1}])).incomplete == 1


def test_early_payload_marks_a_collective_but_not_a_pair() -> None:
    early = collective([0, 0], [10, 20])
    early[1]["early"] = True
    assert merge(table([*early, *pair(0, 9, instance=1, early=True)])).early.tolist() == [True, False]


def test_the_traced_time_is_the_shortest_of_the_members() -> None:
    members = collective([0, 0, 0], [9, 9, 9])
    for one, traced in zip(members, (3000, None, 600), strict=True):
        one["traced_ns"] = traced
    merged = merge(table([*members, *collective([0, 0], [9, 9], instance=1)]))
    assert merged.traced_ns.tolist() == [600, UNKNOWN]


def test_the_size_is_the_largest_of_the_members() -> None:
    members = collective([0, 0], [9, 9], kind="all_to_all")
    members[0]["size_bytes"] = 70
    assert merge(table(members)).size_bytes.tolist() == [1000]


def test_no_samples_give_no_measurements() -> None:
    merged = merge(table([]))
    assert (len(merged), merged.incomplete, merged.algorithms) == (0, 0, ())


def test_an_unknown_kind_is_refused_by_name() -> None:
    with pytest.raises(ResultError, match="all_scatter"):
        merge(table([row(kind="all_scatter")]))


_TIMES = st.integers(0, 1_000)


@st.composite
def _samples(draw: st.DrawFn) -> list[Row]:
    """Collectives and pairs of up to three iterations, some without a member, in random order."""
    rows: list[Row] = []
    for iteration in range(draw(st.integers(1, 3))):
        for instance in range(draw(st.integers(0, 4))):
            place = {"iteration": iteration, "instance": instance, "size_bytes": draw(st.integers(0, 99))}
            if draw(st.booleans()):
                made = pair(draw(_TIMES), draw(_TIMES), received_post=draw(_TIMES), **place)
            else:
                count = draw(st.integers(1, 4))
                times = st.lists(_TIMES, min_size=count, max_size=count)
                arrivals = draw(st.lists(st.none() | _TIMES, min_size=count, max_size=count))
                made = arriving(draw(times), draw(times), arrivals, early=draw(st.booleans()), **place)
            rows += made[draw(st.integers(0, 1)) and draw(st.integers(0, len(made))) :]
    return draw(st.permutations(rows))


def _merged_by_hand(rows: list[Row]) -> tuple[list[tuple[int, ...]], int]:
    """(iteration, instance, members, size, cct, span, skew, early) of each measurement, and the incomplete ones."""
    found, incomplete = [], 0
    for place in sorted({(one["iteration"], one["instance"]) for one in rows}):
        mine = [one for one in rows if (one["iteration"], one["instance"]) == place]
        is_pair = mine[0]["kind"] in ("send", "recv")
        members = 2 if is_pair else mine[0]["group_size"]
        if len(mine) != members:
            incomplete += 1
            continue
        posts, dones = [one["post_ns"] for one in mine], [one["done_ns"] for one in mine]
        end = max((one["arrival_ns"] for one in mine if one["arrival_ns"] is not None), default=max(dones))
        cct = end - max(posts)
        if is_pair:
            cct = end - next(one["post_ns"] for one in mine if one["kind"] == "send")
        size = max(one["size_bytes"] for one in mine)
        early = any(one["early"] for one in mine) and not is_pair
        times = cct, end - min(posts), max(posts) - min(posts)
        found.append((*place, members, size, *times, int(early)))
    return found, incomplete


@given(_samples())
def test_merging_agrees_with_a_loop_over_the_samples(rows: list[Row]) -> None:
    merged = merge(table(rows))
    columns = ("iteration", "instance", "members", "size_bytes", "cct_ns", "span_ns", "skew_ns", "early")
    found = [tuple(map(int, row)) for row in zip(*(getattr(merged, name) for name in columns), strict=True)]
    assert (found, merged.incomplete) == _merged_by_hand(rows)
