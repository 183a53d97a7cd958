"""The flows with the most trouble."""

from __future__ import annotations

from collections.abc import Iterator

from emulator.statistics.summary import WORST_FLOWS
from emulator.views.html.facts import RunFacts
from emulator.views.html.page.document import Section, table_of
from emulator.views.network_text import describe_loss_focus
from emulator.views.worst_flow_columns import WORST_FLOW_COLUMNS

_ABOUT = (
    f"The flows with the most retransmissions, at most {WORST_FLOWS}. Counters are of the whole run, warm-up included."
)


def worst(facts: RunFacts) -> Iterator[Section]:
    """The section, if any flow had events."""
    if facts.summary.worst_flows:
        table = table_of("worst-flows", "Worst flows", list(WORST_FLOW_COLUMNS), facts.summary.worst_flows)
        about = " ".join((_ABOUT, *(f"{describe_loss_focus(one)}." for one in facts.summary.loss_foci)))
        yield Section("worst", "Worst flows", [table], about)
