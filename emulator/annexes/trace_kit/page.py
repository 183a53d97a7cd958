"""The page about a trace: what `charkha trace view` writes, and the same facts as JSON."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import numpy as np

from emulator.annexes.trace_kit.page_facts import TracePageFacts
from emulator.annexes.trace_kit.page_graph import critical_path, graph
from emulator.annexes.trace_kit.page_lines import lines, usage_of
from emulator.planner.traffic.operation import PairBytes
from emulator.trace.meaning.model import Workload
from emulator.units import format_duration, format_size
from emulator.views.as_json import trace_to_json
from emulator.views.columns.columns import Header
from emulator.views.columns.figures import count_of, describe_warning, percent_cell
from emulator.views.html.page.document import Block, Chart, Figures, KeyFigure, Page, PageSection, Table, Text
from emulator.views.html.page.pair_grid import PairGrid
from emulator.views.html.page.pictures import Picture, Rows


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


ROWS = 24


def traffic(facts: TracePageFacts) -> PageSection:
    """The section about traffic."""
    blocks: list[Block] = [_heat_map(facts, facts.pairs)] if facts.pairs is not None else [_no_map(facts)]
    if facts.workload.instances:
        blocks.append(_sizes(facts.workload))
    return PageSection("traffic", "Traffic", blocks)


def _no_map(facts: TracePageFacts) -> Text:
    text = f"{facts.summary.ranks:,} ranks exchange more than this page can add up: use `charkha plan`."
    return Text("no-matrix", text, "note")


def _heat_map(facts: TracePageFacts, pairs: PairBytes) -> Chart:
    grid = PairGrid([*map(str, range(facts.summary.ranks))], pairs.src, pairs.dst, pairs.bytes)
    about = "Payload of one iteration, by the algorithms that a run would choose."
    return grid.heat_map("matrix", "Bytes from rank to rank", about, _pairs_table(pairs))


def _pairs_table(pairs: PairBytes) -> Table:
    order = np.argsort(-pairs.bytes, kind="stable")[:ROWS].tolist()
    rows = [[str(pairs.src[at]), str(pairs.dst[at]), f"{pairs.bytes[at]:,}"] for at in order]
    columns = [Header("from rank"), Header("to rank"), Header("payload, bytes")]
    note = "" if len(pairs.src) <= ROWS else f"The {ROWS} largest of {len(pairs.src):,}."
    return Table("matrix-table", "Bytes from rank to rank", columns, rows, note)


def _sizes(workload: Workload) -> Chart:
    """Operations by kind and size, each counted once with its largest member; ranges are powers of two."""
    largest: dict[int, tuple[str, int]] = {}
    for program in workload.programs:
        for node in program.communications.values():
            kind = node.kind.label if node.kind.is_collective else "send + recv"
            known = largest.get(node.instance, (kind, 0))[1]
            largest[node.instance] = (kind, max(known, node.size_bytes))
    found: dict[tuple[int, str], list[int]] = defaultdict(list)
    for kind, size in largest.values():
        found[size.bit_length(), kind].append(size)
    bars, rows = Rows(), []
    for (bits, kind), sizes in sorted(found.items()):
        bars.add(range=_range(bits), kind=kind, count=len(sizes), payload_bytes=sum(sizes))
        rows.append([kind, _range(bits), f"{len(sizes):,}", format_size(sum(sizes))])
    columns = [Header("kind", is_number=False), Header("size"), Header("operations"), Header("sum of sizes")]
    return Chart(
        "sizes",
        "Sizes of operations",
        f"comm_size of one rank, each operation counted once; n = {workload.instances:,}. Ranges are powers of two.",
        "Stacked bars: number of operations by size, coloured by kind.",
        Picture("size_histogram", {"sizes": bars.columns}),
        Table("sizes-table", "Sizes of operations", columns, rows),
    )


def _range(bits: int) -> str:
    return "0" if not bits else f"≥ {format_size(1 << (bits - 1))}"
