"""Compute nodes on one resource: order, exact schedule."""

from hypothesis import given
from hypothesis import strategies as st

from agents.play.compute import ComputeResource, Usage
from agents.play.window import WindowNode
from emulator.trace.meaning.model import Resource


def node(node_id: int, *, ready: int, duration: int) -> WindowNode:
    found = WindowNode(node_id, node_id, int(Resource.DEVICE), duration)
    found.ready_ns = ready
    return found


def test_nodes_run_in_the_order_they_become_ready_and_ties_by_id() -> None:
    resource = ComputeResource()
    for one in (node(3, ready=5, duration=1), node(2, ready=5, duration=1), node(9, ready=1, duration=1)):
        resource.enqueue(one)
    order = []
    while resource.begin_next() is not None:
        order.append(resource.end().node_id)
    assert order == [9, 2, 3]


def test_a_node_that_waited_begins_when_the_one_before_it_ends_even_if_that_is_noticed_late() -> None:
    resource = ComputeResource()
    resource.enqueue(node(1, ready=10, duration=5))
    resource.enqueue(node(2, ready=11, duration=7))
    assert resource.begin_next() == 10
    assert resource.begin_next() is None  # one at a time
    assert resource.end().node_id == 1
    assert resource.begin_next() == 15
    assert resource.ends_ns == 22


def test_an_idle_resource_begins_a_node_when_it_is_ready() -> None:
    resource = ComputeResource()
    assert resource.begin_next() is None
    resource.enqueue(node(1, ready=100, duration=0))
    assert (resource.begin_next(), resource.ends_ns) == (100, 100)
    resource.end()
    resource.enqueue(node(2, ready=50, duration=1))
    assert resource.begin_next() == 100  # not before the one that ran


def test_sums_are_those_of_the_intervals() -> None:
    usage = Usage(100)
    usage.communication(1, 110)
    usage.device_begins(120)
    usage.communication(1, 130)
    usage.communication(-2, 150)
    usage.device_ends(170, 50)
    assert (usage.communication_ns, usage.compute_ns, usage.overlap_ns) == (40, 50, 30)


def test_adjacent_nodes_form_one_span_and_empty_ones_none() -> None:
    usage = Usage(0)
    for end, duration in ((10, 10), (30, 20), (50, 10), (60, 0)):
        usage.device_begins(end - duration)
        usage.device_ends(end, duration)
    assert usage.spans == 2
    assert usage.take_spans() == [(0, 30), (40, 50)]
    assert usage.take_spans() == []


def test_a_span_that_was_put_back_grows_with_the_next_node() -> None:
    usage = Usage(0)
    usage.device_ends(10, 10)
    (span,) = usage.take_spans()
    usage.resume_span(span)
    usage.device_ends(15, 5)
    assert usage.take_spans() == [(0, 15)]


@given(st.lists(st.tuples(st.integers(0, 50), st.sampled_from(["up", "down", "begin", "end"])), max_size=60))
def test_overlap_is_never_more_than_either_part(events: list[tuple[int, str]]) -> None:
    usage, now, busy_since, open_count = Usage(0), 0, None, 0
    for gap, event in events:
        now += gap
        if event == "up":
            usage.communication(1, now)
            open_count += 1
        elif event == "down" and open_count:
            usage.communication(-1, now)
            open_count -= 1
        elif event == "begin" and busy_since is None:
            usage.device_begins(now)
            busy_since = now
        elif event == "end" and busy_since is not None:
            usage.device_ends(now, now - busy_since)
            busy_since = None
    if busy_since is not None:
        usage.device_ends(now, now - busy_since)
    assert usage.overlap_ns <= min(usage.communication_ns, usage.compute_ns)
    assert max(usage.communication_ns, usage.compute_ns) <= now
    assert sum(end - start for start, end in usage.take_spans()) == usage.compute_ns


def seen(usage: Usage) -> tuple[int, int, int]:
    return usage.compute_ns, usage.communication_ns, usage.overlap_ns


def test_usage_counts_each_activity_and_both_at_once() -> None:
    usage = Usage(100)
    usage.device_begins(110)
    usage.communication(+1, 120)
    usage.communication(+1, 130)
    usage.device_ends(150, 40)
    usage.communication(-1, 160)
    usage.communication(-1, 170)
    usage.device_begins(180)
    usage.device_ends(181, 1)
    assert seen(usage) == (41, 50, 30)


def test_a_node_that_is_reported_late_overlaps_only_from_its_report_on() -> None:
    usage = Usage(0)
    usage.communication(+1, 50)
    usage.device_begins(20)  # counts from 50 on where overlap is concerned
    usage.communication(-1, 60)
    usage.device_ends(55, 35)
    assert seen(usage) == (35, 10, 10)
