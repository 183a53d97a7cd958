"""Events of a run spec in a lab: a link that is down for a while is found, with what that cost."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from emulator.results.run_folder.reader import Run, read_run
from emulator.results.statistics.events import EventFigures
from emulator.results.statistics.summary import summarise
from emulator.results.statistics.traffic.background import BackgroundFlow
from tests.support.full import variant
from tests.support.star_lab import Lab, raised

pytestmark = [pytest.mark.usefixtures("lab_host"), pytest.mark.slow]
LEAF_SPINE = Path(__file__).parents[2] / "topologies" / "leaf-spine-1x2.yaml"
MS = 1_000_000
BIN_NS = MS
NEXT_TIMER_NS = 4 * 134 * MS
"""Of --qp-timeout 15: after time-outs without an answer, the next one can take four times as long."""
SPEC = """charkha: 1
jobs: [{sweep: {collective: all_reduce, ranks: 2, sizes: [SIZE]}, iterations: ITERATIONS, warmup: 0}]
network: {transport: {options: {qp_timeout: 15}}}
background: [{from: h0, to: h1, rate: 1.296Mbit, pattern: constant, transport: udp, size: 64}]
events: EVENTS
"""


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    with raised(tmp_path, LEAF_SPINE.read_text()) as one:
        yield one


def played(lab: Lab, events: str, *, size: str = "64M", iterations: int = 1, out: str = "run", code: int = 0) -> Run:
    """An iteration of half a second, so that there is always something to move, however busy the host is."""
    spec = SPEC.replace("EVENTS", events).replace("ITERATIONS", str(iterations)).replace("SIZE", size)
    (lab.folder / "run.yaml").write_text(spec)
    finished = lab.play("run", "-f", "run.yaml", out=out)
    assert finished.code == code, finished.stderr
    return read_run(lab.folder / out)


def check(found: EventFigures, *, down_ns: int) -> None:
    """The link was down for at least as long as planned, and nothing came meanwhile."""
    event = found.event
    assert (event.where, event.what) == ("leaf0:u0", "port down")
    assert None not in (event.begin_ns, event.end_ns, event.planned_ns, event.begin_error_ns, event.end_error_ns)
    errors_ns = (event.begin_error_ns or 0) + (event.end_error_ns or 0)
    assert event.lasted_ns >= down_ns - errors_ns
    assert found.outage_ns >= event.lasted_ns - 2 * BIN_NS
    assert (found.flows, found.is_over) == (2, True)
    assert found.jct_ns >= found.outage_ns - 2 * BIN_NS


def check_probe(found: EventFigures, probe: BackgroundFlow) -> None:
    """The probe passed nothing from when the link went down until the router had its routes back, and then at once."""
    event, longest = found.event, probe.longest_outage
    assert (probe.interval_ns, found.probe_outage_ns, found.probe_error_ns) == (MS, longest.outage_ns, longest.error_ns)
    assert found.is_probe_over
    assert None not in (event.begin_ns, event.end_ns, event.routes_ns, event.unusable_ns)
    assert (event.routes_ns or 0) >= (event.end_ns or 0) - (event.end_error_ns or 0)
    errors_ns = longest.error_ns + (event.begin_error_ns or 0) + (event.end_error_ns or 0)
    assert abs(longest.outage_ns - (event.unusable_ns or 0)) <= errors_ns + 5 * MS
    assert longest.outage_ns <= (found.outage_ns or 0) + errors_ns + 2 * BIN_NS


def test_a_link_that_is_down_for_a_while_is_found_with_what_it_cost(lab: Lab) -> None:
    found = summarise(played(lab, "[{at: 100ms, port: 'leaf0:u0', down: 200ms}]"))
    check(*found.events, down_ns=200 * MS)
    check_probe(*found.events, *found.background)
    clean = summarise(played(lab, "[]", size="1M", out="clean"))
    [probe] = clean.background
    assert (clean.events, probe.outages, probe.lost_packets) == ((), (), 0)
    assert probe.received_messages


@variant
@pytest.mark.parametrize("down_ms", [50, 200, 800])
def test_outages_of_every_length_are_found(lab: Lab, down_ms: int) -> None:
    for number in range(5):
        at_ms, out = 150 + 37 * number, f"{down_ms}-{number}"
        run = played(lab, f"[{{at: {at_ms}ms, port: 'leaf0:u0', down: {down_ms}ms}}]", out=out)
        [found] = summarise(run).events
        check(found, down_ns=down_ms * MS)
        errors_ns = (found.event.begin_error_ns or 0) + (found.event.end_error_ns or 0)
        assert found.outage_ns <= (found.event.unusable_ns or 0) + errors_ns + NEXT_TIMER_NS + 2 * BIN_NS


@variant
def test_an_event_that_stops_no_traffic_has_no_outage(lab: Lab) -> None:
    events = "[{at: iteration 2, port: 'leaf0:u0', shape: 100%, for: 30ms}]"
    [found] = summarise(played(lab, events, size="1M", iterations=9)).events
    assert (found.event.what, found.event.happened) == ("shape to 100 % of the port's rate", True)
    assert found.outage_ns is None


@variant
def test_a_run_that_a_link_ends_says_from_when_to_when_nothing_came(lab: Lab) -> None:
    run = played(lab, "[{at: 200ms, port: 'leaf0:u0', down: true}]", code=1)
    [found] = summarise(run).events
    assert (found.is_over, found.event.end_ns) == (False, None)
    assert found.lost_until_ns is not None
    assert abs(found.lost_from_ns - found.event.begin_ns) <= (found.event.begin_error_ns or 0) + 2 * BIN_NS
