"""Background traffic alongside the job."""

from __future__ import annotations

from collections.abc import Iterator

from emulator.views.background_columns import BACKGROUND_COLUMNS, describe_behind
from emulator.views.html.facts import RunFacts
from emulator.views.html.page.document import Section, table_of

_ABOUT = (
    "Open-loop traffic alongside the job, from the first iteration, including warm-up. Rates are on the wire: payload, "
    "all headers, preambles and gaps. If a flow sent less than it offered, the sender was the limit if messages were "
    "late, else the network. None of its bytes count as the job's; counters of devices include them."
)


def background(facts: RunFacts) -> Iterator[Section]:
    """The section, if there was any."""
    rows = facts.summary.background
    if rows:
        table = table_of(
            "background-flows", "Background traffic", list(BACKGROUND_COLUMNS), rows, describe_behind(rows)
        )
        yield Section("background", "Background traffic", [table], _ABOUT)
