"""The top of a report: the verdict, what was run and the key results, for a reader with ten seconds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from emulator.results.run_folder.manifest import ABORTED, INTERRUPTED, Manifest
from emulator.results.statistics.class_summary import ClassSummary
from emulator.results.statistics.metrics import METRICS
from emulator.results.statistics.samples.classes import IN_A_HOST
from emulator.results.statistics.samples.iterations import IterationSummary
from emulator.results.statistics.traffic.dut_counters import UNREAD
from emulator.results.statistics.traffic.network_traffic import NetworkTraffic
from emulator.results.verdict.judge import Outcome, Verdict
from emulator.trace.meaning.imported import GUESSED
from emulator.transports.registry import REGISTRY
from emulator.units import format_duration, format_size
from emulator.views.columns.figures import (
    NONE,
    count_cell,
    count_of,
    describe_early,
    describe_scaling,
    duration_cell,
    give_or_take,
    number_cell,
    payload_cell,
    rate_cell,
)
from emulator.views.columns.result_columns import VERDICT_COLUMNS
from emulator.views.html.facts import PageFacts
from emulator.views.html.page.document import (
    Answer,
    Bar,
    BarPart,
    Block,
    Figures,
    KeyFigure,
    PageSection,
    Text,
    table_of,
)
from emulator.views.html.sections.traffic import count_drops
from emulator.views.network_text import describe_network, explain_ideal, gbit_cell
from emulator.views.verdict_text import words

_COUNTERS = ("retransmissions", "timeouts", "naks", "ecn_marks", "cnps", "out_of_order")


def transport_name(manifest: Manifest) -> str:
    """The transport by its usual name."""
    name = manifest.parameters.get("transport")
    if name is None:
        return NONE
    return REGISTRY[str(name.value)].title if name.value in REGISTRY else str(name.value)


def sentence(facts: PageFacts) -> str:
    """The result in a few sentences."""
    parts = [f"{count_of(facts.summary.ranks, 'rank')} played the trace with {transport_name(facts.manifest)}."]
    one = facts.summary.iteration
    if one is None:
        return f"{parts[0]} No measured iteration has been completed by all ranks{' yet' if facts.is_running else ''}."
    spread = f"{format_duration(one.jct_min_ns)} to {format_duration(one.jct_max_ns)} over {one.count}"
    parts.append(f"An iteration takes {format_duration(one.jct_ns)} at the median ({spread}).")
    if one.exposed_fraction is not None:
        parts.append(f"{100 * one.exposed_fraction:.0f} % of it is exposed communication, not overlapped by compute.")
    if one.ideal_ns is not None:
        parts.append(f"With every collective at its ideal it would take {format_duration(one.ideal_ns)}.")
    if facts.summary.classes:
        parts.append(_dominant(facts.summary.classes[0]))
    return " ".join(parts)


def labels(facts: PageFacts) -> Iterator[str]:
    """Short facts below the heading."""
    manifest, trials = facts.manifest, facts.summary.trials
    yield manifest.status
    yield count_of(facts.summary.ranks, "rank")
    warmup = f" after {trials.warmup} warm-up" if trials.warmup else ""
    planned = manifest.parameters.get("iterations")
    if facts.is_running and planned is not None and isinstance(planned.value, int):
        yield from _progress(facts, planned.value)
    else:
        yield f"{count_of(trials.included, 'iteration')}{warmup}"
    yield transport_name(manifest)
    yield f"topology {manifest.topology.get('name') or NONE}"
    dut = [str(manifest.dut[name]) for name in ("name", "firmware") if manifest.dut.get(name)]
    yield f"DUT {' '.join(dut)}" if dut else "no DUT named"
    yield manifest.created.replace("T", " ")[:19]


def _progress(facts: PageFacts, planned: int) -> Iterator[str]:
    """How far a run is that is still going on."""
    done, one = facts.summary.trials.included, facts.summary.iteration
    yield f"{done:,} of {count_of(planned, 'iteration')}"
    if one is not None:
        yield f"about {format_duration(one.jct_ns * max(0, planned - done))} left"
    for metric in map(METRICS.__getitem__, _COUNTERS):
        if count := facts.summary.totals.counters.get(metric.field):
            yield f"{metric.title} {count:,}"


def warnings(facts: PageFacts) -> Iterator[str]:
    """What no reader may overlook."""
    if facts.manifest.status in (ABORTED, INTERRUPTED):
        yield f"Aborted: {facts.manifest.reason or 'not closed'}. The report covers what was measured until then."
    if facts.summary.scaling.is_scaled:
        how = describe_scaling(facts.summary.scaling)
        yield f"Scaled: {how}. The results are those of the scaled run, not of the original trace."
    imported = facts.manifest.trace.imported
    if imported is not None and (guesses := imported.number(GUESSED)):
        yield (
            f"Guessed: the recording lacks {count_of(guesses, 'fact')} about its traffic; the import from "
            f"{imported.format} guessed. The method section lists them."
        )
    yield from (f"{one[0].upper()}{one[1:]}." for one in facts.summary.warnings if one.startswith(UNREAD))
    if facts.summary.totals.early:
        yield f"{describe_early(facts.summary.totals.early)}."


def overview(facts: PageFacts) -> PageSection:
    """The section with the key figures. It has no verdict: acceptance criteria are the reader's."""
    blocks: list[Block] = [Figures("key-figures", list(_leading(facts)))]
    if facts.summary.iteration is not None:
        blocks.append(_shares(facts.summary.iteration))
    blocks.append(Figures("loss-figures", [*_loss(facts.summary.totals.counters), _drops(facts)]))
    if not facts.summary.totals.counters:
        why = "available when the run ends" if facts.is_running else "not provided by this transport"
        blocks.append(Text("no-flow-counters", f"Flow counters are {why}. A dash means: not measured.", "note"))
    return PageSection("summary", "", blocks, is_wide=True)


def _leading(facts: PageFacts) -> Iterator[KeyFigure]:
    one = facts.summary.iteration
    yield KeyFigure("Iteration (JCT)", duration_cell(one.jct_ns if one else None), _spread(one), is_leading=True)
    timed = [row for row in facts.summary.classes if row.busbw_bytes_per_s is not None]
    # The class that takes most time, of those that crossed ports if any did: busbw and ideal are of the same class.
    leading = min(timed, key=lambda row: (row.where == IN_A_HOST, row.ideal_percent is None), default=None)
    busbw, ideal = (leading.busbw_bytes_per_s, leading.ideal_percent) if leading else (None, None)
    about, why = _about(leading, "busbw_bytes_per_s"), _about(leading, "ideal_percent")
    yield KeyFigure("busbw", _with_unit(rate_cell(busbw)), about, is_leading=True)
    why = " ".join((why, *explain_ideal([leading] if leading else ())))
    yield KeyFigure("Ideal", _percent(ideal), why if ideal is not None else "needs ports with a known rate", True)
    totals = facts.summary.totals
    if totals.network is not None:
        yield _busiest_port(totals.network)
    else:
        rate = _with_unit(rate_cell(totals.payload_bytes_per_s))
        yield KeyFigure("Payload rate", rate, f"{payload_cell(totals.payload_bytes)} per iteration / median JCT", True)


def _about(leading: ClassSummary | None, name: str) -> str:
    if leading is None:
        return "no class has a bandwidth"
    return f"median{give_or_take(leading.uncertainty, name)} of {_name(leading)}, n = {leading.samples}"


def _spread(one: IterationSummary | None) -> str:
    if one is None:
        return "no complete iteration"
    text = f"median{give_or_take(one.uncertainty, 'jct_ns')} of n = {one.count}"
    text += f", {format_duration(one.jct_min_ns)} to {format_duration(one.jct_max_ns)}"
    text += "" if one.jct_variation is None else f", CV {100 * one.jct_variation:.1f} %"
    return text if one.ideal_ns is None else f"{text}; ideal {format_duration(one.ideal_ns)}"


def _shares(one: IterationSummary) -> Bar:
    """How the rank that finished last in the median iteration spent its time."""
    parts = [
        ("compute only", one.compute_ns - one.overlap_ns, "compute"),
        ("compute and communication at once", one.overlap_ns, "overlapped"),
        ("exposed communication", one.exposed_ns, "exposed"),
    ]
    rest = one.jct_ns - sum(ns for _, ns, _ in parts)
    if rest > 0:
        parts.append(("neither (waiting, CPU work)", int(rest), "idle"))
    whole = sum(ns for _, ns, _ in parts) or 1
    return Bar(
        "iteration-shares",
        "Breakdown of the median iteration",
        f"Time of rank {one.slowest_rank}, the last to finish the median iteration ({format_duration(one.jct_ns)}).",
        [
            BarPart(name, f"{format_duration(ns)}, {100 * ns / whole:.0f} %", ns / whole, style)
            for name, ns, style in parts
        ],
    )


def _loss(counters: Mapping[str, int]) -> Iterator[KeyFigure]:
    for metric in map(METRICS.__getitem__, _COUNTERS):
        count = counters.get(metric.field)
        title = f"{metric.title[:1].upper()}{metric.title[1:]}"
        yield KeyFigure(title, count_cell(count), f"{metric.what}, whole run")


def _drops(facts: PageFacts) -> KeyFigure:
    drops = count_drops(facts.counters)
    if drops is None:
        return KeyFigure("Drops", NONE, "no device counters were recorded")
    about = ", ".join(f"{name} {count:,}" for name, count in drops.items()) or "the devices have no drop counter"
    return KeyFigure("Drops", f"{sum(drops.values()):,}" if drops else NONE, f"{about}; device counters, whole run")


def _dominant(row: ClassSummary) -> str:
    each = f"{duration_cell(row.cct_p50_ns)} at the median, {row.count} per iteration"
    return f"Most communication time is spent in {_name(row)}: {each}."


def _busiest_port(network: NetworkTraffic) -> KeyFigure:
    port = network.busiest
    value = NONE if port is None else gbit_cell(port.bits_per_s)
    return KeyFigure("Busiest port", value, describe_network(network), is_leading=True)


def _name(row: ClassSummary) -> str:
    parts = [row.collective, f"{row.members} ranks", format_size(row.size_bytes), row.where]
    return ", ".join(filter(None, parts))


def _with_unit(rate: str) -> str:
    return rate if rate == NONE else f"{rate} GB/s"


def _percent(value: float | None) -> str:
    return NONE if value is None else f"{number_cell(value)} %"


TONES = {Outcome.PASS: "good", Outcome.FAIL: "bad"}


def answer(verdict: Verdict) -> Answer:
    """The first line of the page."""
    return Answer(*words(verdict), TONES.get(verdict.outcome, "open"))


def checks(verdict: Verdict) -> Iterator[PageSection]:
    """A table of every check; nothing without rules."""
    if verdict.findings:
        about = "TESTER-LIMITED: the tester determined the value, not the device. UNDECIDED: it was not measured."
        yield PageSection(
            "verdict",
            "Verdict",
            [table_of("checks", f"Checks: {verdict.rules}", VERDICT_COLUMNS, verdict.findings, about)],
        )
