"""The summary of a run for a terminal of any width: a line per class of collectives, then the facts of the run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from emulator.results.run_folder.manifest import COMPLETE, LAST_DONE
from emulator.results.statistics.class_summary import ClassSummary
from emulator.results.statistics.samples.iterations import IterationSummary
from emulator.results.statistics.samples.transfers import TransferSummary, TransferTimes
from emulator.results.statistics.summary import RunSummary
from emulator.results.statistics.traffic.dut_counters import describe_device
from emulator.results.verdict.judge import judge_tester
from emulator.units import format_duration, format_size
from emulator.views.columns.class_columns import CLASS_COLUMNS
from emulator.views.columns.columns import explain, paragraphs
from emulator.views.columns.comparison_columns import BACKGROUND_COLUMNS, FLOW_RESULT_COLUMNS, describe_behind
from emulator.views.columns.event_columns import EVENT_COLUMNS, MIGRATION_COLUMNS, describe_events
from emulator.views.columns.figures import (
    CCT_UNTIL_DONE,
    NONE,
    count_of,
    describe_early,
    describe_scaling,
    describe_warning,
    give_or_take,
    payload_cell,
    percent_cell,
    rate_cell,
)
from emulator.views.columns.worst_columns import WORST_FLOW_COLUMNS, WORST_STEP_COLUMNS
from emulator.views.network_text import (
    describe_flows,
    describe_loss_focus,
    describe_network,
    describe_paths,
    explain_ideal,
)
from emulator.views.terminal.table import FittedTable, facts_grid
from emulator.visible import short, visible

EXPLAIN = paragraphs(
    explain(CLASS_COLUMNS, title="Classes of collectives, sorted by the time they take in an iteration:"),
    explain(WORST_FLOW_COLUMNS, title="Worst flows, of the whole run; only if there were any events:"),
    explain(WORST_STEP_COLUMNS, title="Worst steps of recorded collectives; only with --record-steps:"),
    explain(EVENT_COLUMNS, title="Events of the device, if its run spec or its profile has any:"),
    explain(MIGRATION_COLUMNS, title="Migrations, if traffic moved to second addresses (--survive):"),
    explain(FLOW_RESULT_COLUMNS, title="Flows alongside the job, if the run spec has any:"),
    explain(BACKGROUND_COLUMNS, title="Background traffic, if the run has any:"),
)
_LONGEST_NAME = 100
_NAMED_CLASSES = 4
_WORST_FLOWS = _WORST_STEPS = 5


def render(summary: RunSummary, *, limit: int | None = None) -> RenderableType:
    """The summary for a console.

    Args:
        limit: most classes to show, those that take most time; None = all.
    """
    parts: list[RenderableType] = [_headline(summary), Text()]
    if summary.classes:
        hidden = len(summary.classes) - limit if limit is not None and limit < len(summary.classes) else 0
        more = f"{count_of(hidden, 'more class', 'more classes')} take less time (--json has them)." if hidden else ""
        parts.append(FittedTable(CLASS_COLUMNS, summary.classes[:limit], more=more))
    else:
        parts.append(Text("No collective was completed in a measured iteration."))
    if summary.worst_flows:
        shown = summary.worst_flows[:_WORST_FLOWS]
        hidden = len(summary.worst_flows) - len(shown)
        more = f"{count_of(hidden, 'more flow')} in the report and with --json." if hidden else ""
        parts += [Text(), Text("Worst flows", style="bold"), FittedTable(WORST_FLOW_COLUMNS, shown, more=more)]
    if summary.events:
        parts += [Text(), Text("Events of the device", style="bold"), FittedTable(EVENT_COLUMNS, summary.events)]
        parts += map(Text, describe_events(summary.events))
    if summary.migrations:
        parts += [Text(), Text("Migrations", style="bold"), FittedTable(MIGRATION_COLUMNS, summary.migrations)]
    if summary.worst_steps:
        shown_steps = summary.worst_steps[:_WORST_STEPS]
        hidden = len(summary.worst_steps) - len(shown_steps)
        more = f"{count_of(hidden, 'more step')} in the report and with --json." if hidden else ""
        parts += [Text(), Text("Worst steps", style="bold"), FittedTable(WORST_STEP_COLUMNS, shown_steps, more=more)]
    if beside := render_beside(summary):
        parts += [Text(), *beside]
    return Group(*parts, Text(), facts_grid(_lines(summary)))


def render_beside(summary: RunSummary) -> list[RenderableType]:
    """Everything that ran alongside the job; empty: nothing."""
    parts: list[RenderableType] = []
    if summary.flow_results:
        parts += [Text("Flows alongside the job", style="bold"), FittedTable(FLOW_RESULT_COLUMNS, summary.flow_results)]
    if summary.background:
        parts += [Text("Background traffic", style="bold"), FittedTable(BACKGROUND_COLUMNS, summary.background)]
        parts += [Text(behind)] if (behind := describe_behind(summary.background)) else []
    return parts


def _headline(summary: RunSummary) -> Text:
    trials = summary.trials
    warmup = f" after {trials.warmup} warm-up" if trials.warmup else ""
    counts = f"{count_of(summary.ranks, 'rank')}, {count_of(trials.included, 'iteration')}{warmup}"
    text = Text.assemble((short(summary.trace, _LONGEST_NAME), "bold"), f", {counts}")
    if summary.status != COMPLETE:
        text.append(f"\n{summary.status}: {visible(summary.reason or 'not closed')}", style="bold red")
    return text


def _lines(summary: RunSummary) -> Iterator[tuple[str, str]]:
    if summary.scaling.is_scaled or summary.scaling.element_bytes is not None:
        yield "Scaled" if summary.scaling.is_scaled else "Sizes", describe_scaling(summary.scaling)
    if summary.iteration is not None:
        yield from _iteration_lines(summary.iteration)
    for text in explain_ideal(summary.classes):
        yield "Ideal", text
    if summary.transfers.requests:
        yield from _request_lines(summary.transfers)
    yield from _total_lines(summary)
    yield "Measured at", _describe_tester(summary)
    for what, count in summary.warnings.items():
        yield "Warning", describe_warning(what, count)


def _iteration_lines(iteration: IterationSummary) -> Iterator[tuple[str, str]]:
    spread = (
        f"{format_duration(iteration.jct_min_ns)} to {format_duration(iteration.jct_max_ns)} over {iteration.count}"
    )
    if iteration.jct_variation is not None:
        spread += f", variation {percent_cell(iteration.jct_variation)}"
    if iteration.ideal_ns is not None:
        spread += f"; ideal {format_duration(iteration.ideal_ns)}"
    yield (
        "Iteration (JCT)",
        f"{format_duration(iteration.jct_ns)}{give_or_take(iteration.uncertainty, 'jct_ns')} median, {spread}",
    )
    if iteration.exposed_fraction is not None:
        share = f"{percent_cell(iteration.exposed_fraction, digits=0)} of the iteration"
        where = f"rank {iteration.slowest_rank}, the last to finish the median iteration"
        yield "Exposed", f"{format_duration(iteration.exposed_ns)} of communication, {share} ({where})"
    if iteration.overlap_fraction is not None:
        hidden = (
            f"{percent_cell(iteration.overlap_fraction, digits=0)} of {format_duration(iteration.communication_ns)}"
        )
        compute = f"compute {format_duration(iteration.compute_ns)}"
        yield "Overlapped", f"{format_duration(iteration.overlap_ns)}, {hidden} of communication; {compute}"


def _request_lines(transfers: TransferSummary) -> Iterator[tuple[str, str]]:
    requests = f"{count_of(transfers.requests, 'request')}"
    yield (
        "First token",
        f"{_times(transfers.ttft)} over {requests}, from arrival to the last byte of the key-value cache",
    )
    yield "Key-value", f"{_times(transfers.kv_latency)} over {requests}, from the first send to the last byte"
    yield "Flow completion", f"{_times(transfers.fct)} over {count_of(transfers.flows, 'flow')}"
    if transfers.incomplete_requests:
        yield "Incomplete", f"{count_of(transfers.incomplete_requests, 'request')} lack a sample and are omitted"


def _times(times: TransferTimes) -> str:
    named = {"median": times.p50_ns, "p99": times.p99_ns, "longest": times.max_ns}
    return ", ".join(f"{NONE if value is None else format_duration(value)} {name}" for name, value in named.items())


def _total_lines(summary: RunSummary) -> Iterator[tuple[str, str]]:
    totals = summary.totals
    known = totals.payload_bytes_per_s is not None
    rate = f", {rate_cell(totals.payload_bytes_per_s)} GB/s over the iteration" if known else ""
    yield "Payload", f"{payload_cell(totals.payload_bytes)} an iteration{rate}"
    if totals.network is not None:
        yield "Between hosts", describe_network(totals.network)
    if totals.domain_bytes:
        part = percent_cell(totals.domain_bytes / max(totals.payload_bytes, 1), digits=0)
        size = payload_cell(totals.domain_bytes)
        yield "In domains", f"{size} of the payload of an iteration ({part}), through scale-up domains inside hosts"
    if totals.counters:
        yield "Flows", describe_flows(totals.counters)
    if totals.paths:
        yield "Paths", describe_paths(totals.paths)
    for focus in summary.loss_foci:
        yield "Lost", describe_loss_focus(focus)
    device = describe_device(totals.device_frames, totals.dut)
    if device:
        yield "DUT", device
    limited = [one for one in summary.classes if one.is_tester_limited]
    if limited:
        yield "Tester-limited", _limited_in_words(limited)
    if totals.early:
        yield "Early payload", describe_early(totals.early)
    if totals.negative:
        yield "Below zero", f"{totals.negative} measurements have a negative time and are omitted"
    if totals.incomplete:
        yield "Incomplete", f"{totals.incomplete} measurements lack a member and are omitted"
    for one in summary.trials.excluded:
        yield "Excluded", f"iteration {one.iteration}: {one.why}"


def _limited_in_words(classes: Sequence[ClassSummary]) -> str:
    shown = classes[:_NAMED_CLASSES]
    names = "; ".join(f"{one.collective} {one.members} ranks {format_size(one.size_bytes)}" for one in shown)
    more = f" and {len(classes) - len(shown)} more" if len(classes) > len(shown) else ""
    if all(one.network is not None for one in classes):
        return f"{names}{more}: 90 % of cct or more is the tester's own time; network p50 measures the DUT"
    return f"{names}{more}: within 10 % of the tester's own time without a DUT; these figures do not measure the DUT"


def _describe_tester(summary: RunSummary) -> str:
    tester = summary.tester
    clock = f"clock error at most {format_duration(tester.clock_error_ns)}" if tester.clock_error_ns else ""
    parts = [tester.observation_point, clock or tester.clock_source]
    if tester.cct_until == LAST_DONE:
        parts.append(CCT_UNTIL_DONE)
    if tester.read_delay_median_ns is not None:
        parts.append(f"read {format_duration(tester.read_delay_median_ns)} later at the median")
    state = judge_tester(summary)
    parts += filter(None, (state.core_wait, state.drops))
    if state.lateness:
        parts.append(state.lateness)
    elif tester.post_lateness_median_ns is not None:
        parts.append(f"posts were {format_duration(tester.post_lateness_median_ns)} late at the median")
    if summary.no_network:
        parts.append(f"network's part not measured ({summary.no_network})")
    if tester.late_starts:
        parts.append(f"an agent began late in {tester.late_starts:,} of the iterations")
    if tester.peak_rss_bytes is not None:
        a_rank = f", {format_size(tester.rank_rss_bytes)} a rank" if tester.rank_rss_bytes is not None else ""
        parts.append(f"{format_size(tester.peak_rss_bytes)} of memory an agent{a_rank}")
    if state.steal:
        parts.append(state.steal)
    elif tester.steal_fraction is not None:
        parts.append(f"steal {percent_cell(tester.steal_fraction)}")
    return ", ".join(parts)
