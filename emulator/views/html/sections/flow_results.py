"""Flows that ran alongside the job."""

from __future__ import annotations

from collections.abc import Iterator

from emulator.views.flow_result_columns import FLOW_RESULT_COLUMNS
from emulator.views.html.facts import RunFacts
from emulator.views.html.page.document import Section, table_of

_ABOUT = (
    "Traffic alongside the job, from the first iteration, including warm-up. The table shows what this end counted "
    "next to what the peer reports."
)


def flows_beside(facts: RunFacts) -> Iterator[Section]:
    """The section, if there were any."""
    rows = facts.summary.flow_results
    if rows:
        table = table_of("flow-results", "Flows alongside the job", list(FLOW_RESULT_COLUMNS), rows)
        yield Section("flows-beside", "Flows alongside the job", [table], _ABOUT)
