"""What happened to flows since the iteration before."""

from hypothesis import given
from hypothesis import strategies as st

from agents.part import FlowHistory
from emulator.control.observations import EVENTS, FlowCounters


def sent(retransmits: int, **counted: int) -> FlowCounters:
    """What the sender of a flow from rank 0 to 1 says."""
    return FlowCounters(0, 1, bytes=9, messages=1, packets=90, retransmits=retransmits, qpn=17, **counted)


def received(duplicates: int) -> FlowCounters:
    """What its receiver says."""
    return FlowCounters(0, 1, qpn=17, duplicates=duplicates)


def test_only_flows_with_new_events_are_told() -> None:
    history = FlowHistory()
    assert history.news([sent(0), received(0)]) == []
    (first,) = history.news([sent(3, timeouts=1), received(0)])
    assert (first.src, first.dst, first.qpn, first.retransmits, first.timeouts, first.duplicates) == (0, 1, 17, 3, 1, 0)
    assert history.news([sent(3, timeouts=1), received(0)]) == []
    (second,) = history.news([sent(5, timeouts=1), received(2)])
    assert (second.retransmits, second.timeouts, second.duplicates) == (2, 0, 2)


def test_news_has_events_only_and_what_nobody_counts_stays_unknown() -> None:
    (one,) = FlowHistory().news([sent(1)])
    assert (one.bytes, one.messages, one.packets, one.duplicates) == (0, 0, None, None)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=8))
def test_news_of_all_iterations_adds_up_to_the_totals(steps: list[tuple[int, int]]) -> None:
    history, totals, told = FlowHistory(), [0, 0], [0, 0]
    for step in steps:
        totals = [total + more for total, more in zip(totals, step, strict=True)]
        flows = [sent(totals[0])] if totals[0] else []  # a transport may leave out a quiet end
        for news in history.news([*flows, received(totals[1])]):
            told[0] += news.retransmits or 0
            told[1] += news.duplicates or 0
    assert told == totals


def test_events_are_counters_of_flows() -> None:
    assert set(EVENTS) <= set(FlowCounters.__dataclass_fields__)
