"""What the ranks exchange: bytes from rank to rank, and the sizes of operations."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from emulator.planner.traffic.pair_bytes import PairBytes
from emulator.trace.meaning.model import Workload
from emulator.units import format_size
from emulator.views.columns.columns import Header
from emulator.views.html.page.document import Block, Chart, PageSection, Table, Text
from emulator.views.html.page.pair_grid import PairGrid
from emulator.views.html.page.pictures import Picture, Rows
from emulator.views.html.trace_facts import TracePageFacts

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
