"""The page about a trace: what `charkha trace view` writes, and the same facts as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from emulator.units import format_duration, format_size
from emulator.views.as_json.trace import trace_to_json
from emulator.views.columns.figures import count_of, describe_warning, percent_cell
from emulator.views.html.page.document import Block, Figures, KeyFigure, Page, PageSection
from emulator.views.html.trace_facts import TracePageFacts
from emulator.views.html.trace_sections.graph import graph
from emulator.views.html.trace_sections.lines import lines, usage_of
from emulator.views.html.trace_sections.path import critical_path
from emulator.views.html.trace_sections.traffic import traffic


def trace_page(facts: TracePageFacts) -> Page:
    """The page of a trace set."""
    summary = facts.summary
    return Page(
        title=f"{facts.name} · trace · charkha",
        heading=facts.name,
        sentence=_sentence(facts),
        labels=[
            count_of(summary.ranks, "rank") if summary.only is None else f"rank {summary.only} of {summary.ranks:,}",
            count_of(summary.nodes, "node"),
            *summary.schemas,
        ],
        warnings=[describe_warning(name, count) for name, count in summary.warnings.items()],
        sections=[_overview(facts), lines(facts), traffic(facts), critical_path(facts), graph(facts)],
        footer="Written by charkha trace view from the trace. Nothing was measured: charkha run plays it.",
    )


def facts_to_json(facts: TracePageFacts) -> dict[str, Any]:
    """The facts of the page: the summary of `charkha trace check --json` with further keys."""
    usage = None if facts.line is None else [asdict(one) for one in usage_of(facts.workload.recorded, facts.line)]
    return trace_to_json(facts.summary) | {
        "times": None if facts.line is None else ("recorded" if facts.line.is_recorded else "computed"),
        "time_line_ns": None if facts.line is None else facts.line.length_ns,
        "usage": usage,
        "communication_times": facts.communication_about,
        "critical_path_ns": facts.path_ns,
        "critical_path_nodes": len(facts.path),
        "pairs": None if facts.pairs is None else list(_pairs(facts)),
    }


def _pairs(facts: TracePageFacts) -> Iterator[dict[str, int]]:
    assert facts.pairs is not None
    columns = (facts.pairs.src.tolist(), facts.pairs.dst.tolist(), facts.pairs.bytes.tolist())
    for src, dst, size in zip(*columns, strict=True):
        yield {"src": src, "dst": dst, "bytes": size}


def _sentence(facts: TracePageFacts) -> str:
    summary = facts.summary
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in summary.communication_nodes.items())
    nodes = sum(summary.communication_nodes.values())
    text = f"{count_of(nodes, 'communication node')} ({kinds})" if nodes else "No communication on the network"
    finish = summary.not_playable or "A run of it finishes: proven"
    return f"{text} in {count_of(len(summary.groups), 'process group')}. {finish}."


def _overview(facts: TracePageFacts) -> PageSection:
    summary = facts.summary
    payload = sum(one.payload_bytes_all_ranks for one in summary.operations)
    whose = "all ranks" if summary.only is None else f"the nodes of rank {summary.only}"
    figures = [
        KeyFigure("Critical path", format_duration(facts.path_ns), facts.communication_about, is_leading=True),
        KeyFigure("Payload", format_size(payload), f"comm_size over {whose}, one iteration"),
    ]
    if facts.line is not None:
        usage = usage_of(facts.workload.recorded, facts.line)
        both, talking = sum(one.both_ns for one in usage), sum(one.communication_ns for one in usage)
        how = "recorded" if facts.line.is_recorded else "computed"
        figures.append(KeyFigure("Time line", format_duration(facts.line.length_ns), f"{how}, first to last node"))
        covered = percent_cell(both / talking if talking else None)
        figures.append(KeyFigure("Overlap", covered, "of communication, during which the rank computes"))
    figures += [
        KeyFigure("Compute, device", format_duration(summary.device_ns.middle), "of a rank, median"),
        KeyFigure("Compute, CPU", format_duration(summary.cpu_ns.middle), "of a rank, median"),
        KeyFigure("Operations", f"{facts.workload.instances:,}", "collectives, and sends with their receives"),
    ]
    blocks: list[Block] = [Figures("figures", figures)]
    return PageSection("overview", "", blocks)
