"""What changed at the device during a run, and traffic that moved: tables, and marks in pictures over time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from emulator.results.statistics.events import EventMark
from emulator.views.columns.event_columns import EVENT_COLUMNS, MIGRATION_COLUMNS, describe_events
from emulator.views.html.facts import PageFacts
from emulator.views.html.page.document import Block, PageSection, Text, table_of
from emulator.views.html.page.pictures import Columns, Rows

_ABOUT = (
    "Links that went down, ports that were slowed, profiles that were in force for a part of the run, and commands "
    "(docs/profiles.md). Pictures over time show the same, and migrations, as grey bands."
)

_MOVED = (
    "Traffic that moved to the second addresses of two ranks because nothing was answered on the first ones, and back "
    "once these answered again (docs/faults.md)."
)


def events(facts: PageFacts) -> Iterator[PageSection]:
    """The sections, if anything changed or moved."""
    found = facts.summary.events
    if found:
        blocks: list[Block] = [table_of("events", "Events", EVENT_COLUMNS, found)]
        blocks += [Text(f"event-note-{at}", text, "note") for at, text in enumerate(describe_events(found))]
        yield PageSection("events", "Events of the device", blocks, _ABOUT)
    if moved := facts.summary.migrations:
        table = table_of("migrations", "Migrations", MIGRATION_COLUMNS, moved)
        yield PageSection("migrations", "Migrations", [table], _MOVED)


def bands(marks: Sequence[EventMark], begin_ns: int, end_ns: int) -> Columns:
    """The marks as the data set `events` of a picture whose time goes from `begin_ns` to `end_ns`."""
    rows = Rows()
    for one in marks:
        first = begin_ns if one.begin_ns is None else one.begin_ns
        last = end_ns if one.end_ns is None else one.end_ns
        if first < end_ns and last > begin_ns:
            from_ns, to_ns = max(0, first - begin_ns), min(last, end_ns) - begin_ns
            rows.add(event=one.what, from_ns=from_ns, to_ns=to_ns)
    return rows.columns
