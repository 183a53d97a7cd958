"""Traffic alongside the job: flows with peers, and background traffic."""

from __future__ import annotations

from collections.abc import Iterator

from emulator.views.columns.beside_columns import BACKGROUND_COLUMNS, FLOW_RESULT_COLUMNS, describe_behind
from emulator.views.html.facts import RunFacts
from emulator.views.html.page.document import Section, table_of

_FLOWS = (
    "Traffic alongside the job, from the first iteration, including warm-up. The table shows what this end counted "
    "next to what the peer reports."
)
_BACKGROUND = (
    "Open-loop traffic alongside the job, from the first iteration, including warm-up. Rates are on the wire: payload, "
    "all headers, preambles and gaps. If a flow sent less than it offered, the sender was the limit if messages were "
    "late, else the network. None of its bytes count as the job's; counters of devices include them."
)


def beside(facts: RunFacts) -> Iterator[Section]:
    """A section for each kind that there was."""
    summary = facts.summary
    if summary.flow_results:
        title = "Flows alongside the job"
        table = table_of("flow-results", title, FLOW_RESULT_COLUMNS, summary.flow_results)
        yield Section("flows-beside", title, [table], _FLOWS)
    if summary.background:
        title, behind = "Background traffic", describe_behind(summary.background)
        table = table_of("background-flows", title, BACKGROUND_COLUMNS, summary.background, behind)
        yield Section("background", title, [table], _BACKGROUND)
