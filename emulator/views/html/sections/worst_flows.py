"""The flows with the most trouble, and in which iterations it came."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from emulator.control.observations import EVENTS
from emulator.results.statistics.samples.table_columns import to_ints
from emulator.results.statistics.summary import WORST_FLOWS
from emulator.views.columns.columns import Header
from emulator.views.columns.figures import NONE, count_of
from emulator.views.columns.worst_flow_columns import WORST_FLOW_COLUMNS
from emulator.views.html.facts import RunFacts
from emulator.views.html.page.document import Section, Table, table_of
from emulator.views.text.network_text import describe_loss_focus

ROWS = 100
_ABOUT = (
    f"The flows with the most retransmissions, at most {WORST_FLOWS}. Counters cover the whole run, including warm-up."
)


def worst(facts: RunFacts) -> Iterator[Section]:
    """The section, if any flow had events."""
    if facts.summary.worst_flows:
        blocks = [table_of("worst-flows", "Worst flows", list(WORST_FLOW_COLUMNS), facts.summary.worst_flows)]
        if facts.flow_events.num_rows:
            blocks.append(_by_iteration(facts))
        about = " ".join((_ABOUT, *(f"{describe_loss_focus(one)}." for one in facts.summary.loss_foci)))
        yield Section("worst", "Worst flows", blocks, about)


def _by_iteration(facts: RunFacts) -> Table:
    """Every flow and iteration with events, those with the most events first, without counters that are all 0."""
    events = facts.flow_events
    counts = {name: to_ints(events[name], null=0) for name in EVENTS}
    shown = [name for name in EVENTS if counts[name].any()]
    order = np.lexsort((to_ints(events["iteration"]), -np.sum(list(counts.values()), axis=0)))[:ROWS]
    identity = {name: events[name].to_pylist() for name in ("iteration", "src", "dst", "qpn")}
    rows = [
        [
            *(NONE if one[at] is None else str(one[at]) for one in identity.values()),
            *(f"{counts[n][at]:,}" for n in shown),
        ]
        for at in order.tolist()
    ]
    headers = ["iteration", "from rank", "to rank", "QP", *(name.replace("_", " ") for name in shown)]
    hidden = events.num_rows - len(rows)
    more = f" {count_of(hidden, 'more row is', 'more rows are')} in flow_events.parquet." if hidden else ""
    about = f"A row per iteration in which a flow had events; those with the most first. Warm-up is negative.{more}"
    return Table("flow-events", "Events by iteration", [Header(one) for one in headers], rows, about, is_folded=True)
