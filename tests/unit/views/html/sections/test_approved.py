"""Sections of a report as somebody has read and approved them, case by case; `html/test_approved` has whole pages."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from emulator.control.observations import FlowCounters
from emulator.control.parameter import Parameter
from emulator.results.run_folder.manifest import ABORTED, RUNNING, Exclusion, Scaling, TraceFacts, Trials
from emulator.results.run_folder.reader import read_run
from emulator.results.run_folder.schema import RunTable
from emulator.results.run_folder.writer import RunWriter
from emulator.views.html.facts import PageFacts, read_facts
from emulator.views.html.page import pair_grid
from emulator.views.html.page.document import PageSection
from emulator.views.html.sections import worst as worst_section
from emulator.views.html.sections.iterations import DRAWN, ITERATION_POINTS, RANKS, completion, iterations, stragglers
from emulator.views.html.sections.overview import answer, checks, labels, overview, sentence, warnings
from emulator.views.html.sections.traffic import beside, count_drops, device_counters, traffic
from emulator.views.html.sections.worst import recorded_steps, worst
from tests.support.approved import approved, sections_text
from tests.support.flow_results import write_flow_results
from tests.support.report import facts_of
from tests.support.report import played as played_three
from tests.support.runs import collective, columns, manifest, pair, ranks, write_run
from tests.support.steps import run as run_with_steps
from tests.support.steps import step
from tests.unit.views.terminal.test_verdict_table import rule, verdict

Cases = Mapping[str, Iterable[PageSection]]
SHORT = {0: ranks((0, 10), (0, 10))}
SECOND = 1_000_000_000
MONKEY = pytest.MonkeyPatch


def running(facts: PageFacts) -> PageFacts:
    """The same, while the run goes on."""
    return replace(facts, manifest=replace(facts.manifest, status=RUNNING))


def told_at_the_top(facts: PageFacts) -> str:
    """The sentence, labels and warnings of a report."""
    return "\n".join([sentence(facts), " · ".join(labels(facts)), *(f"! {one}" for one in warnings(facts))])


SPENT = {
    0: ranks((0, 200_000), (0, 210_000), compute=120_000, communication=150_000, overlap=90_000),
    1: ranks((0, 230_000), (0, 220_000), compute=120_000, communication=150_000, overlap=90_000),
}


def two_iterations(folder: Path, **fields: Any) -> PageFacts:
    known = {"size_bytes": 1 << 20, "ideal_ns": 40_000}
    samples = [row for n in range(2) for row in collective([0, 0], [100_000, 90_000], iteration=n, **known)]
    return facts_of(folder, samples, SPENT, **fields)


def test_the_top_of_a_report_says_what_was_approved(tmp_path: Path) -> None:
    on = {"topology": {"name": "leaf-spine"}, "dut": {"name": "sw0", "firmware": "4.2"}}
    roce, forty = {"transport": Parameter("roce")}, {"iterations": Parameter(40), "transport": Parameter("mine")}
    known = two_iterations(tmp_path / "known", parameters=roce, roofline_ns=105_000, **on)
    counted = two_iterations(tmp_path / "forty", parameters=forty)
    lost = replace(counted.summary.totals, counters={**counted.summary.totals.counters, "retransmits": 7})
    half = two_iterations(tmp_path / "half", scaling=Scaling(bytes=0.5), parameters={"transport": Parameter("zmq")})
    aborted = replace(half, manifest=replace(half.manifest, status=ABORTED, reason="agent a0 lost"))
    early = facts_of(tmp_path / "early", collective([0, 0], [9, 9], early=True), SPENT)
    nothing = facts_of(tmp_path / "nothing", [], {})
    cases = {
        "with an ideal": known,
        "2 of 40 iterations, and it goes on": running(replace(counted, summary=replace(counted.summary, totals=lost))),
        "2 of 40 iterations, and it is over": counted,
        "scaled": half,
        "aborted": aborted,
        "early payload": early,
        "no iteration": nothing,
        "no iteration yet": running(nothing),
    }
    approved("sections/top", "\n\n".join(f"== {name}\n{told_at_the_top(one)}" for name, one in cases.items()) + "\n")


@pytest.mark.parametrize(("limit", "word", "tone"), [(10, "FAIL", "bad"), (900, "PASS", "good"), (None, None, "open")])
def test_the_report_shows_the_answer_in_the_tone_of_the_outcome(
    tmp_path: Path, limit: int | None, word: str | None, tone: str
) -> None:
    found = verdict(tmp_path, *([] if limit is None else [rule("jct", limit)]))
    assert answer(found).tone == tone
    assert word is None or answer(found).word == word
    assert [section.title for section in checks(found)] == ["Verdict"] * (limit is not None)


def overviews(folder: Path, _: MONKEY) -> Cases:
    one_ideal = [
        *collective([0, 0], [900_000, 900_000], size_bytes=2 << 20),
        *collective([0, 0], [100_000, 100_000], instance=1, size_bytes=1 << 20, ideal_ns=40_000),
    ]
    flows = [FlowCounters(0, 1, retransmits=3, naks=1), FlowCounters(1, 0, retransmits=1200, naks=0)]
    known = two_iterations(folder / "known", roofline_ns=105_000)
    cases = {
        "the breakdown adds up to the median iteration; no flow counters": known,
        "flow counters come when the run ends": running(known),
        "flow counters of the whole run": two_iterations(folder / "flows", flows=flows),
        "busbw and ideal of the class that has both": facts_of(folder / "ideal", one_ideal, SPENT),
        "figures that were not measured say what they need": facts_of(folder / "nothing", [], {}),
    }
    return {name: [overview(facts)] for name, facts in cases.items()}


FLOWS = (
    FlowCounters(0, 1, bytes=3000, messages=3, qpn=1, packets=5, retransmits=0, rtt_ns=40_000),
    FlowCounters(0, 1, bytes=1000, messages=1, qpn=2, packets=2, retransmits=4),
    FlowCounters(1, 0, bytes=500, messages=1, packets=1, retransmits=0),
)


def traffics(folder: Path, monkeypatch: MONKEY) -> Cases:
    def of(name: str, flows: tuple[FlowCounters, ...] = FLOWS, **fields: object) -> PageFacts:
        spent = {0: ranks((0, 100), (0, 100), communication=50)}
        return facts_of(folder / name, collective([0, 10], [100, 90]), spent, flows=flows, **fields)

    def at(address: str) -> dict[str, object]:
        return {"host_index": [0, 1], "addresses": [address.format(rank) for rank in range(2)]}

    four = TraceFacts(path="four", digest="00" * 32, ranks=4, nodes=4, communication_nodes=4)
    among_four = (FlowCounters(0, 2, bytes=10), FlowCounters(1, 3, bytes=5), FlowCounters(3, 0, bytes=1))
    spent = {0: ranks(*[(0, 100)] * 4, communication=50)}
    of_four = facts_of(folder / "four", collective([0] * 4, [9] * 4), spent, flows=among_four, trace=four)
    warm_up = facts_of(folder / "warm-up", collective([0, 0], [5, 5], iteration=-1), {-1: ranks((0, 9), (0, 9))})
    without = of("without", ())
    found = {
        "queue pairs of a pair are summed, flows with events come first": [traffic(of("usual"))],
        "without events the largest come first": [
            traffic(of("calm", tuple(replace(one, retransmits=0) for one in FLOWS)))
        ],
        "nothing leaves a host over loopback addresses": [
            traffic(of("loopback", topology={**at("127.0.0.{}"), "host_index": [0, 1]}))
        ],
        "without communication time goodput is unknown": [
            traffic(facts_of(folder / "unknown", collective([0, 0], [9, 9]), SHORT, flows=FLOWS))
        ],
        "no flows: aborted": [traffic(without)],
        "no flows: they come when the run ends": [traffic(running(without))],
        "warm-up is not in the completion times": [traffic(warm_up)],
        "flows alongside the job": beside(read_facts(write_flow_results(folder / "flows"))),
        "no flows alongside": beside(read_facts(write_run(folder / "plain", collective([0, 0], [9, 9])))),
    }
    with monkeypatch.context() as patch:
        patch.setattr(pair_grid, "CELLS", 2)
        found["a cell of two by two ranks"] = [traffic(of_four)]
        patch.setattr(pair_grid, "CELLS", 1)
        both = of("both", topology=at("198.18.{}.1"), flows=(*FLOWS, FlowCounters(1, 1, bytes=7)))
        found["a cell with traffic of both kinds is two"] = [traffic(both)]
    return found


def read(folder: Path, *readings: tuple[int, str, str, int]) -> PageFacts:
    """Of a run with readings (second, interface, counter, value) of a switch."""
    with RunWriter(folder, manifest()) as writer:
        writer.add(RunTable.SAMPLES, columns(collective([0, 0], [10, 10])))
        writer.add_iteration(0, SHORT[0])
        names = ("time_ns", "interface", "counter", "value")
        rows: dict[str, list[Any]] = {name: [one[at] for one in readings] for at, name in enumerate(names)}
        if readings:
            rows["time_ns"] = [at * SECOND for at in rows["time_ns"]]
            writer.add(RunTable.COUNTERS, rows | {"device": ["leaf0"] * len(readings)})
    return read_facts(read_run(folder))


def counters(folder: Path, _: MONKEY) -> Cases:
    sent = [(9, "p0", "tx_bytes", 900), (5, "p0", "tx_bytes", 100), (7, "p0", "tx_bytes", 500)]
    levels = [(5, "p0", "qdisc_backlog_bytes", 3), (7, "p0", "qdisc_backlog_bytes", 1)]
    return {
        "no readings": [device_counters(read(folder / "none"))],
        "an increase per second, and levels as they are": [device_counters(read(folder / "some", *sent, *levels))],
    }


def test_drops_are_what_was_counted_between_the_first_and_the_last_reading(tmp_path: Path) -> None:
    readings = [(5, "p0", "qdisc_drops", 100), (7, "p0", "qdisc_drops", 103), (6, "p1", "rx_dropped", 9)]
    assert count_drops(read(tmp_path / "run", *readings).counters) == {"qdisc_drops": 3, "rx_dropped": 0}
    assert count_drops(read(tmp_path / "other").counters) is None


def time_lines(folder: Path, _: MONKEY) -> Cases:
    excluded = Trials(4, 1, 2, (Exclusion(1, "a rank was late"),))
    by_kind = [*collective([100, 120], [180, 190]), *pair(130, 150, received_post=110, instance=1)]
    spans = [(0, 0, 0, 30), (0, 0, 80, 100), (0, 1, 0, 10)]
    overlapping = {0: ranks((0, 100), (0, 100), compute=50, communication=40, overlap=10)}
    cases = {
        "no complete iteration": facts_of(folder / "none", collective([0, 0], [9, 9]), {0: ranks((0, 10))}),
        "an excluded iteration is shown but does not count": played_three(folder / "excluded", trials=excluded),
        "communication by kind from post to done": facts_of(
            folder / "kinds", by_kind, {0: ranks((100, 200), (100, 200), communication=80)}
        ),
        "overlap with compute": facts_of(
            folder / "overlap", collective([20, 20], [60, 60]), overlapping, compute=spans
        ),
    }
    return {name: [iterations(facts)] for name, facts in cases.items()}


def late_ranks(folder: Path, _: MONKEY) -> Cases:
    def late(name: str, members: int) -> PageFacts:
        """The last rank always posts 900 ns late; all complete last in turn."""
        samples = []
        for n in range(12):
            dones = [2000 + (rank == n % members) for rank in range(members)]
            samples += collective([0] * (members - 1) + [900], dones, iteration=n, name="grad")
        return facts_of(folder / name, samples, {0: ranks(*[(0, 2000)] * members)})

    few = late("few", 4)
    return {
        "a late rank": [stragglers(few)],
        "further ranks are counted": [stragglers(late("many", RANKS + 2))],
        "not known yet": [stragglers(replace(few, late_posts=None, late_ends=None))],
        "no collective": [stragglers(facts_of(folder / "none", [], {0: ranks((0, 1), (0, 1))}))],
    }


def completions(folder: Path, _: MONKEY) -> Cases:
    def repeated(name: str, count: int) -> PageFacts:
        samples = [row for n in range(count) for row in collective([0, 0], [100 + n] * 2, iteration=n)]
        return facts_of(folder / name, samples, dict.fromkeys(range(count), SHORT[0]))

    def swept(name: str, sizes: int, **fields: object) -> PageFacts:
        samples = []
        for n in range(sizes):
            samples += collective([0, 0], [1000 * (n + 1)] * 2, instance=n, size_bytes=1 << (10 + n), **fields)
        return facts_of(folder / name, samples, SHORT)

    ranges = [
        *collective([0, 0], [100, 100]),
        *collective([0, 0], [300, 300], instance=1),
        *collective([0, 0], [200, 200], instance=2),
        *collective([0, 0], [50, 50], iteration=1),
    ]
    cases = {
        "no collective": facts_of(folder / "none", [], SHORT),
        "20 measurements have some percentiles": repeated("twenty", 20),
        "percentiles wait for the end of the run": running(repeated("running", 1)),
        "median and range over iterations": facts_of(folder / "ranges", ranges, dict.fromkeys(range(2), SHORT[0])),
        "many iterations share points": repeated("many", 2 * ITERATION_POINTS),
        "only the most expensive classes are drawn": swept("classes", DRAWN + 2, early=True),
        "several sizes are a sweep": swept("sizes", 5),
        "a few sizes are none": swept("few", 3),
    }
    return {name: [completion(facts)] for name, facts in cases.items()}


def worst_flows(folder: Path, _: MONKEY) -> Cases:
    def of(name: str, events: dict[int, FlowCounters]) -> Iterable[PageSection]:
        total = FlowCounters(0, 1, bytes=9, messages=1, packets=90, retransmits=5, timeouts=0, duplicates=1, qpn=17)
        with RunWriter(folder / name, manifest()) as writer:
            writer.add(RunTable.SAMPLES, columns(collective([0, 0], [100, 100])))
            writer.add_flows([total])
            for iteration, flow in events.items():
                writer.add_flow_events(iteration, [flow])
        return worst(read_facts(read_run(folder / name)))

    quiet, busy = FlowCounters(0, 1, retransmits=1, duplicates=1, qpn=17), FlowCounters(0, 1, retransmits=4, qpn=17)
    return {
        "events by iteration, the most first": of("some", {-1: quiet, 3: busy}),
        "no iteration recorded": of("none", {}),
    }


def worst_steps(folder: Path, monkeypatch: MONKEY) -> Cases:
    def of(name: str, steps: list[Any]) -> list[PageSection]:
        return list(recorded_steps(read_facts(run_with_steps(folder / name, steps))))

    usual = [step(rank, (rank + 1) % 4, 100, 150) for rank in range(3)]
    ideal = [{**one, "ideal_post_ns": 0, "ideal_arrival_ns": 40} for one in usual]
    waits = step(3, 0, 100, 150, post_ns=120, acknowledged_ns=990)
    found = {
        "every transfer is a line and the late one stands out": of("late", [*usual, step(3, 0, 100, 900)]),
        "the ideal stands below": of("ideal", ideal),
        "waits for a receiver and for an ACK are told apart": of("waits", [*usual, waits]),
        "what never arrived is no line": of("lost", [*usual, step(3, 0, 100, None)]),
        "no steps": list(recorded_steps(read_facts(write_run(folder / "none", collective([0, 0], [9, 9]))))),
    }
    with monkeypatch.context() as patch:
        patch.setattr(worst_section, "LINES", 10)
        many = [step(0, 1, 100 + k, 150 + k, step=k) for k in range(40)]
        found["a large collective keeps what is late"] = of("many", [*many, step(2, 3, 105, 900, step=5)])
    return found


@pytest.mark.parametrize(
    "make",
    [overviews, traffics, counters, time_lines, late_ranks, completions, worst_flows, worst_steps],
    ids=lambda make: make.__name__,
)
def test_a_section_says_what_was_approved(
    make: Callable[[Path, MONKEY], Cases], tmp_path: Path, monkeypatch: MONKEY
) -> None:
    text = sections_text(make(tmp_path, monkeypatch)).replace(str(tmp_path), "FOLDER")
    approved(f"sections/{make.__name__}", text)
