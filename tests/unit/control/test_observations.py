"""Reports of agents: moved to another clock, and joined from both ends of a flow."""

from dataclasses import fields
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.control.observations import Completion, Completions, ComputeSpans, FlowCounters, RankSummary, join_ends

SENT = {"bytes": 900, "messages": 3, "packets": 9, "retransmits": 1, "naks": 1, "rtt_ns": 50, "source_port": 50_000}
RECEIVED = {"ecn_marks": 2, "cnps_sent": 1, "out_of_order": 4, "duplicates": 1, "dropped_icrc": 1}


def completions() -> Completions:
    """Of a node that received and one that only sent."""
    columns = {name: np.array(values) for name, values in {
        "rank": [0, 1], "node_id": [5, 6], "post_ns": [100, 110], "done_ns": [200, 210], "arrival_ns": [190, 0],
        "bytes_sent": [0, 8], "bytes_received": [8, 0], "early": [False, False], "read_delay_ns": [-1, 3],
        "core_wait_ns": [0, -1],
    }.items()}  # fmt: skip
    return Completions(-1, **columns)


def test_completions_become_columns_of_the_same_names() -> None:
    assert Completion._fields == tuple(one.name for one in fields(Completions))
    rows = [Completion(-1, rank, (1 << 64) - 1 - rank, 5, 7, 0, 8, 9, early=rank == 1) for rank in range(2)]
    done = Completions.of(rows)
    assert (done.iteration, done.rank.tolist(), done.early.tolist()) == (-1, [0, 1], [False, True])
    assert (done.node_id.tolist(), done.node_id.dtype) == ([(1 << 64) - 1, (1 << 64) - 2], np.uint64)
    assert (done.post_ns.tolist(), done.core_wait_ns.tolist()) == ([5, 5], [-1, -1])


def test_completions_move_to_another_clock_but_no_arrival_stays_none() -> None:
    moved = completions().earlier(40)
    assert (moved.post_ns.tolist(), moved.done_ns.tolist()) == ([60, 70], [160, 170])
    assert moved.arrival_ns.tolist() == [150, 0]
    same = completions()
    assert same.earlier(0) is same


@given(st.integers(-(10**15), 10**15))
def test_durations_do_not_depend_on_the_clock(by_ns: int) -> None:
    moved = completions().earlier(by_ns)
    assert (moved.done_ns - moved.post_ns).tolist() == [100, 100]
    summary = RankSummary(0, start_ns=10, end_ns=30, compute_ns=5, communication_ns=6, overlap_ns=1).earlier(by_ns)
    assert (summary.end_ns - summary.start_ns, summary.start_ns) == (20, 10 - by_ns)
    assert (summary.compute_ns, summary.communication_ns, summary.overlap_ns) == (5, 6, 1)
    spans = ComputeSpans(0, np.array([0]), np.array([10]), np.array([30])).earlier(by_ns)
    assert (spans.end_ns - spans.start_ns).tolist() == [20]


def test_both_ends_of_a_flow_become_one_row() -> None:
    (row,) = join_ends([FlowCounters(0, 1, qpn=17, **RECEIVED), FlowCounters(0, 1, qpn=17, **SENT)])  # type: ignore[arg-type]
    assert {name: getattr(row, name) for name in SENT | RECEIVED} == SENT | RECEIVED


def test_what_both_ends_know_is_taken_from_the_first() -> None:
    joined = FlowCounters(0, 1, packets=9, rtt_ns=None).joined(FlowCounters(0, 1, packets=7, rtt_ns=5))
    assert (joined.packets, joined.rtt_ns) == (9, 5)


@given(st.integers(0, 1 << 30))
def test_rows_come_by_source_destination_and_queue_pair_in_whatever_order_they_are_reported(seed: int) -> None:
    ends = [FlowCounters(src, dst, qpn=qpn, messages=1) for src in (0, 1) for dst in (2, 3) for qpn in (16, 17)]
    Random(seed).shuffle(ends)
    assert [(row.src, row.dst, row.qpn) for row in join_ends(ends)] == [
        (src, dst, qpn) for src in (0, 1) for dst in (2, 3) for qpn in (16, 17)
    ]


def test_a_transport_without_queue_pairs_has_a_row_per_rank_pair() -> None:
    rows = join_ends([FlowCounters(0, 1, messages=1, bytes=5), FlowCounters(0, 1, messages=2, bytes=6)])
    assert [(row.messages, row.bytes) for row in rows] == [(3, 11)]


@pytest.mark.parametrize(
    "name", [one.name for one in fields(FlowCounters) if one.name not in ("src", "dst", "bytes", "medium")]
)
def test_a_flow_is_empty_if_nothing_was_sent_and_nothing_happened(name: str) -> None:
    row = FlowCounters(0, 1, **{name: 1})
    assert row.is_empty is (name in ("qpn", "source_port", "rtt_ns"))
    assert len(join_ends([row, FlowCounters(0, 1)])) == (0 if row.is_empty else 1)
