"""Outage, recovery and the rest of an event, from the tables of a run."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from emulator.annexes.recovery import NO_TIMELINE, TOGETHER_NS, event_figures, migrations
from emulator.control.observations import FlowCounters
from emulator.control.parameter import Parameter
from emulator.host.parquet import write_parquet
from emulator.results.run_folder.manifest import ABORTED, COMPLETE, Status
from emulator.results.run_folder.reader import Run, read_run
from emulator.results.run_folder.schema import RunTable, to_batch
from emulator.results.run_folder.writer import RunWriter
from emulator.results.statistics.events import EventFigures, Migrations, RateChange
from tests.support.runs import collective, columns, manifest, ranks

MS = 1_000_000
ITERATION_MS, PLAYED = 100, 9
DOWN = (450, 650)
"""When the link was down, ms."""


@dataclass
class Played:
    """A run of iterations of 100 ms in which two flows carry payload in every ms; times in ms.

    Attributes:
        paused: flow → times in which nothing of it arrives.
        size: bytes of a flow in a ms in which it does not pause.
        also: when a third flow is there, to the receiver of flow 0.
        moves: port of h0 that traffic left, port that it went to, and when.
        longer: iteration → how much longer it takes, which is before all that follow.
        waits_ms: from the beginning of an iteration, for how long ranks wait; None: all of it.
    """

    paused: Mapping[int, list[tuple[int, int]]] = field(default_factory=dict)
    longer: Mapping[int, int] = field(default_factory=dict)
    waits_ms: int | None = None
    ends: int = PLAYED
    events: list[tuple[str, int | None, int | None]] = field(default_factory=lambda: [("cut", *DOWN)])
    stops_traffic: bool = True
    size: Callable[[int, int], int] = lambda flow, at: 9
    has_timeline: bool = True
    status: Status = COMPLETE
    watched_until: int = 0
    has_samples: bool = True
    also: tuple[int, int] | None = None
    moves: list[tuple[str, str, int]] = field(default_factory=list)

    def spans(self) -> list[tuple[int, int]]:
        found, at = [], 0
        for number in range(self.ends):
            length = ITERATION_MS + self.longer.get(number, 0)
            found.append((at, at + length))
            at += length
        return found

    def run(self, folder: Path) -> Run:
        facts: dict[str, Any] = {"parameters": {"roce.path_mtu": Parameter(1024)}}
        with RunWriter(folder / "run", manifest(**facts)) as writer:
            for number, (begin, end) in enumerate(self.spans()):
                done = end if self.waits_ms is None else begin + self.waits_ms
                both = collective([begin * MS] * 2, [done * MS] * 2, iteration=number)
                if self.has_samples:
                    writer.add(RunTable.SAMPLES, columns(both))
                writer.add_iteration(number, ranks((begin * MS, end * MS), (begin * MS, end * MS)))
            writer.add_flows([FlowCounters(0, 1, bytes=1, retransmits=7, qpn=17)])
            writer.add_flow_events(4, [FlowCounters(0, 1, bytes=1, retransmits=7, qpn=17)])
            writer.add(RunTable.EVENTS, _columns(self._events()))
            readings = {"time_ns": [self.watched_until * MS], "value": 0, "interface": "p1", "counter": "rx_bytes"}
            writer.add(RunTable.COUNTERS, readings | {"device": "sw0"})
            if self.has_timeline:
                writer.add(RunTable.TIMELINE, _columns(self._bins()))
        found = read_run(folder / "run")
        return replace(found, manifest=replace(found.manifest, status=self.status))

    def _bins(self) -> Iterable[dict[str, int]]:
        for flow in (0, 1):
            for at in range(self.spans()[-1][1]):
                if not any(begin <= at < end for begin, end in self.paused.get(flow, ())):
                    yield {"src": flow, "dst": 1 - flow, "qpn": 17 + flow, "start_ns": at * MS, "bin_ns": MS,
                           "bytes": self.size(flow, at), "retransmits": 0, "ecn_marks": 0}  # fmt: skip
        for at in range(*(self.also or (0, 0))):
            yield {"src": 0, "dst": 1, "qpn": 19, "start_ns": at * MS, "bin_ns": MS, "bytes": self.size(2, at),
                   "retransmits": 0, "ecn_marks": 0}  # fmt: skip

    def _events(self) -> Iterable[dict[str, Any]]:
        for name, *times in self.events:
            for edge, at in zip(("begin", "end"), times, strict=True):
                yield {"name": name, "edge": edge, "what": "port down", "device": "sw0", "interface": "p1",
                       "stops_traffic": self.stops_traffic, "planned_ns": None if at is None else (at - 1) * MS,
                       "time_ns": None if at is None else at * MS, "uncertainty_ns": None if at is None else MS,
                       "seen_by": None if at is None else "kernel"}  # fmt: skip
        for left, taken, at in self.moves:
            yield {"name": "rank 0 to rank 1", "edge": "begin", "what": f"migration to {taken}", "device": "h0",
                   "interface": left, "stops_traffic": False, "planned_ns": None, "time_ns": at * MS,
                   "uncertainty_ns": 0, "seen_by": "agent"}  # fmt: skip


def _columns(rows: Iterable[Mapping[str, Any]]) -> dict[str, list[Any]]:
    listed = list(rows)
    return {name: [row[name] for row in listed] for name in listed[0]}


def figures(folder: Path, played: Played) -> EventFigures:
    [found] = event_figures(played.run(folder))
    return found


CUT = {0: [(450, 720)], 1: [(452, 700)]}
"""Pauses of both flows: the first one is longer, and moves again last."""


def test_the_outage_is_the_longest_pause_and_recovery_ends_with_the_last_flow(tmp_path: Path) -> None:
    found = figures(tmp_path, Played(CUT, {4: 300}))
    assert (found.outage_ns, found.outage_error_ns, found.flows) == (271 * MS, MS, 2)
    assert found.recovery_ns == 720 * MS + MS // 2 - 650 * MS
    assert found.recovery_error_ns == MS // 2 + MS
    assert (found.at_ns, found.event.lasted_ns, found.is_over, found.why) == (450 * MS, 200 * MS, True, "")
    assert (found.iterations, found.jct_ns, found.steady_p50_ns) == ((4,), 400 * MS, 100 * MS)
    assert (found.steady_p99_ns, found.jct_to_p99) == (None, None)
    assert (found.retransmissions, found.retransmitted_bytes) == (7, 7 * 1024)


def test_a_clean_run_and_an_event_that_stops_nothing_have_no_outage(tmp_path: Path) -> None:
    found = figures(tmp_path, Played({0: [(440, 441)]}))
    assert (found.outage_ns, found.flows, found.recovery_ns) == (0, 0, 0)


def test_a_pause_that_a_flow_always_makes_is_no_outage(tmp_path: Path) -> None:
    every = [(at, at + 60) for at in range(20, 900, 100)]
    found = figures(tmp_path, Played({0: every, 1: every}))
    assert found.outage_ns == 0
    longer = {one: [*every[:4], (420, 540), *every[6:]] for one in (0, 1)}
    found = figures(tmp_path / "longer", Played(longer, {4: 100}))
    assert found.outage_ns == 92 * MS  # from the event on: what was before is not its work


def test_only_the_time_counts_in_which_ranks_waited(tmp_path: Path) -> None:
    idle = {one: [(at + 40, at + 100) for at in range(0, 900, 100)] for one in (0, 1)}
    during = [(440, 500), (500, 512), (540, 600)]
    paused = {one: [pause for pause in idle[one] if pause[0] < 440 or pause[0] > 560] + during for one in (0, 1)}
    found = figures(tmp_path, Played(paused, waits_ms=40, events=[("cut", 450, 505)]))
    assert found.outage_ns == pytest.approx(12 * MS, abs=MS)  # 500 to 512, not 440 to 512


def test_steady_times_are_those_that_no_event_met(tmp_path: Path) -> None:
    found = figures(tmp_path, Played(CUT, {4: 300, 5: 300}, ends=103, events=[("cut", 450, 900)]))
    assert (found.iterations, found.steady_p99_ns, found.jct_to_p99) == ((4, 5), 100 * MS, 4.0)


def test_two_events_have_their_own_outage(tmp_path: Path) -> None:
    paused = {0: [(250, 280), (650, 750)], 1: [(250, 290), (655, 700)]}
    events: list[tuple[str, int | None, int | None]] = [("a", 250, 270), ("b", 650, 690)]
    first, second = event_figures(Played(paused, events=events).run(tmp_path))
    assert (first.event.name, first.outage_ns, second.outage_ns) == ("a", 41 * MS, 101 * MS)


@pytest.mark.parametrize("has_samples", [True, False])
def test_a_run_that_breaks_off_says_from_when_to_when_nothing_came(tmp_path: Path, *, has_samples: bool) -> None:
    played = Played(
        {0: [(450, 500)]},
        ends=5,
        status=ABORTED,
        events=[("cut", 450, 895)],
        watched_until=900,
        has_samples=has_samples,
    )
    lost = figures(tmp_path, played)
    assert (lost.is_over, lost.flows, lost.recovery_ns) == (False, 2, None)
    assert (lost.lost_from_ns, lost.lost_until_ns) == (449 * MS + MS // 2, 900 * MS)
    assert lost.outage_ns == 450 * MS + MS // 2


def test_without_a_timeline_the_figures_say_what_they_need(tmp_path: Path) -> None:
    found = figures(tmp_path, Played(CUT, {4: 300}, has_timeline=False))
    assert (found.outage_ns, found.recovery_ns, found.why) == (None, None, NO_TIMELINE)
    assert found.jct_ns == 400 * MS


def test_a_probe_has_the_outage_of_the_device(tmp_path: Path) -> None:
    def found(name: str, *gaps: tuple[int, int], is_open: bool = False) -> tuple[int | None, int | None, bool]:
        run = Played(CUT, {4: 300}).run(tmp_path / name)
        usual = {"flow": 0, "kind": "background", "host": "h0", "peer": "h1", "role": "sender", "verb": "udp",
                 "size_bytes": 64, "is_complete": True, "interval_ns": MS, "observer": "charkha",
                 "messages": 700, "bytes": 1, "start_ns": 0, "duration_ns": 800 * MS}  # fmt: skip
        ends = [usual | {"direction": one} for one in ("sent", "received")]
        tables = {RunTable.FLOW_RESULTS: _columns(ends)}
        if gaps:
            tables[RunTable.FLOW_GAPS] = _columns(
                {"flow": 0, "direction": "received", "start_ns": begin * MS, "end_ns": end * MS,
                 "lost": None if is_open else end - begin - 1}
                for begin, end in gaps
            )  # fmt: skip
        for part, content in tables.items():
            write_parquet(run.folder / part.file_name, part.schema, iter([to_batch(part.schema, content)]))
        [one] = event_figures(run)
        return one.probe_outage_ns, one.probe_error_ns, one.is_probe_over

    assert found("cut", (100, 110), (450, 652)) == (201 * MS, 2 * MS, True)
    assert found("clean") == (0, None, True)
    assert found("usual", (100, 110), (500, 509)) == (0, None, True)  # as without the event
    assert found("open", (450, 900), is_open=True) == (349 * MS, 2 * MS, False)  # until its sender ended


def test_an_event_that_did_not_happen_has_no_figures(tmp_path: Path) -> None:
    found = figures(tmp_path, Played(events=[("late", None, None)]))
    assert not found.event.happened
    assert found == EventFigures(found.event)


def shaped(begin: int = 452, end: int = 651) -> Callable[[int, int], int]:
    """Flow 0 goes from 125,000 bytes a ms, ± 10 %, to a tenth of it; flow 1 always has the same."""
    return lambda flow, at: 50_000 if flow else (12_500 if begin <= at < end else 125_000 + (-1) ** at * 12_500)


def rates(folder: Path, size: Callable[[int, int], int], **facts: Any) -> EventFigures:
    return figures(folder, Played(stops_traffic=False, size=size, **facts))


def test_a_rate_changed_where_two_constants_fit_best(tmp_path: Path) -> None:
    found = rates(tmp_path, shaped())
    [at, back] = found.rate_at_begin, found.rate_at_end
    error_ns = 2 * MS  # a bin, and that of the event
    assert at == RateChange("rank 1", 452 * MS, 2 * MS, error_ns, pytest.approx(1e9, rel=0.01), pytest.approx(1e8))
    assert back == RateChange("rank 1", 651 * MS, MS, error_ns, pytest.approx(1e8), pytest.approx(1e9, rel=0.01))
    assert (found.outage_ns, found.why) == (None, "")


def test_of_the_ports_whose_rate_changed_much_the_first_counts(tmp_path: Path) -> None:
    first = shaped(452)

    def size(flow: int, at: int) -> int:
        """Flow 1, to rank 0, stops 6 ms after flow 0 became slower."""
        return first(0, at) if flow == 0 else 0 if 458 <= at < 651 else 135_000

    found = rates(tmp_path, size)
    assert found.rate_at_begin is not None
    assert (found.rate_at_begin.port, found.rate_at_begin.after_ns) == ("rank 1", 2 * MS)


@pytest.mark.parametrize(("at", "after"), [(448, -2 * MS), (447, None), (420, None)])
def test_a_change_before_the_event_by_more_than_the_error_is_not_its_own(tmp_path: Path, at: int, after: int) -> None:
    found = rates(tmp_path, shaped(at))
    assert (found.rate_at_begin and found.rate_at_begin.after_ns) == after


@pytest.mark.parametrize("between", [4, 9])
def test_of_events_too_close_to_tell_apart_none_has_the_change(tmp_path: Path, between: int) -> None:
    events: list[tuple[str, int | None, int | None]] = [("a", 450, 650), ("b", 450 + between, 800)]
    played = Played(stops_traffic=False, size=shaped(452, 800), events=events)
    assert [one.rate_at_begin for one in event_figures(played.run(tmp_path))] == [None, None]


def test_a_flow_that_begins_or_ends_near_an_event_is_no_change_of_the_rate(tmp_path: Path) -> None:
    """Flow 2 comes to the port of flow 0, and goes, about when an event does nothing."""
    for span in ((0, 455), (445, 900), (440, 700)):
        played = Played(stops_traffic=False, size=lambda flow, at: 90_000, also=span)
        found = figures(tmp_path / str(span[0] + span[1]), played)
        assert (found.rate_at_begin, found.rate_at_end) == (None, None)


def test_pauses_that_a_job_makes_anyway_are_no_change_at_an_event(tmp_path: Path) -> None:
    """Every 150 ms the job pauses for 30, once at the event and, between two, 30 ms before its end."""

    def size(flow: int, at: int) -> int:
        return 0 if (at + 150) % 150 >= 120 else 100_000 + (-1) ** at * 9_000

    for at in range(160, 290, 26):
        found = figures(
            tmp_path / str(at), Played(ends=20, stops_traffic=False, size=size, events=[("slow", 450 + at, 1020 + at)])
        )
        assert (found.rate_at_begin, found.rate_at_end) == (None, None), at


def test_a_rate_that_stays_did_not_change(tmp_path: Path) -> None:
    found = rates(tmp_path, lambda flow, at: 100_000 + (-1) ** at * 30_000)
    assert (found.rate_at_begin, found.rate_at_end) == (None, None)


def test_no_window_reaches_into_another_event_or_beyond_the_payload(tmp_path: Path) -> None:
    near: list[tuple[str, int | None, int | None]] = [("slow", 450, 475)]
    found = rates(tmp_path / "near", shaped(450, 475), events=near)
    assert found.rate_at_begin is not None
    assert found.rate_at_end is not None
    assert (found.rate_at_begin.after_ns, found.rate_at_end.after_ns) == (0, 0)
    assert found.rate_at_end.from_bps == pytest.approx(1e8)
    last = rates(tmp_path / "last", shaped(450, 895), events=[("slow", 450, 895)])
    assert last.rate_at_begin is not None
    assert last.rate_at_end is None  # five bins are too few


@pytest.mark.parametrize("iterations", [1, 2])
def test_near_an_iteration_of_a_short_run_nobody_knows(tmp_path: Path, iterations: int) -> None:
    """All of it is near the event, and the second iteration may carry less."""
    events: list[tuple[str, int | None, int | None]] = [("slow", 60, None)]
    longer = {0: 35} if iterations == 1 else {0: -36, 1: -29}
    found = rates(tmp_path, shaped(64, 900), events=events, ends=iterations, longer=longer)
    assert (found.rate_at_begin is None) == (iterations > 1)


def test_without_a_timeline_no_rate_is_known_to_have_changed(tmp_path: Path) -> None:
    found = rates(tmp_path, shaped(), has_timeline=False)
    assert (found.rate_at_begin, found.rate_at_end) == (None, None)
    assert found.jct_ns == 100 * MS


AWAY, BACK = ("eth0", "eth1"), ("eth1", "eth0")


def test_migrations_are_shown_by_port_and_direction(tmp_path: Path) -> None:
    run = Played(moves=[(*AWAY, 600), (*BACK, 800), (*AWAY, 500)]).run(tmp_path)
    assert migrations(run) == (
        Migrations("h0:eth0", "migration to eth1", 2, 500 * MS, 600 * MS, ((500 * MS, 600 * MS),)),
        Migrations("h0:eth1", "migration to eth0", 1, 800 * MS, 800 * MS, ((800 * MS, 800 * MS),)),
    )


def test_moves_far_from_each_other_are_shown_apart(tmp_path: Path) -> None:
    gap = TOGETHER_NS // MS
    [found] = migrations(Played(moves=[(*AWAY, at) for at in (6 + 2 * gap, 5, 5 + gap)]).run(tmp_path))
    last_ns = (6 + 2 * gap) * MS
    assert found.spans == ((5 * MS, (5 + gap) * MS), (last_ns, last_ns))


def test_what_moved_until_the_next_event_belongs_to_an_event(tmp_path: Path) -> None:
    moves = [(*AWAY, 200), (*AWAY, 449), (*BACK, 700), (*AWAY, 900)]
    events: list[tuple[str, int | None, int | None]] = [("cut", *DOWN), ("again", 750, 760)]
    first, second = event_figures(Played(events=events, moves=moves).run(tmp_path))
    assert first.moved == ((700 * MS, "h0:eth1 migration to eth0"),)
    assert second.moved == ()  # one span with those before
    shaped = event_figures(Played(moves=moves, stops_traffic=False, events=events).run(tmp_path / "shaped"))
    assert [one.moved for one in shaped] == [(), ()]
