"""The lead of a Start follows how long it is under way, and one stall does not keep it long."""

from emulator.controller.job_loop import LEAD_SHARE, LEAST_LEAD_NS, REMEMBERED, STALLS, START_LEAD_NS, StartLead

USUAL_NS = 600_000
STALL_NS = 20_000_000


def played(lead: StartLead, *under_way_ns: int) -> int:
    for each in under_way_ns:
        lead.was_read(lead.ns - each)
        lead.next_ns()
    return lead.ns


def test_until_something_is_known_a_start_has_all_the_time() -> None:
    lead = StartLead()
    assert lead.next_ns() == lead.next_ns() == START_LEAD_NS


def test_it_follows_the_agent_that_is_reached_last() -> None:
    lead = StartLead()
    for under_way_ns in (USUAL_NS // 2, USUAL_NS, USUAL_NS // 3):
        lead.was_read(START_LEAD_NS - under_way_ns)
    assert lead.next_ns() == LEAD_SHARE * USUAL_NS


def test_it_stays_within_its_limits() -> None:
    assert played(StartLead(), 1_000) == LEAST_LEAD_NS
    assert played(StartLead(), STALL_NS) == START_LEAD_NS


def test_a_stall_leaves_it_as_it_was() -> None:
    lead = StartLead()
    usual_ns = played(lead, *[USUAL_NS] * REMEMBERED)
    assert played(lead, *[STALL_NS] * STALLS) == usual_ns


def test_starts_that_are_often_late_get_more_time_and_lose_it_when_they_are_not() -> None:
    lead = StartLead()
    usual_ns = played(lead, *[USUAL_NS] * REMEMBERED)
    assert played(lead, *[STALL_NS] * (STALLS + 1)) == START_LEAD_NS
    assert played(lead, *[USUAL_NS] * REMEMBERED) == usual_ns
