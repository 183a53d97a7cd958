"""What an anonymous copy of a trace replaced, and what it still tells, for a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType

from emulator.annexes.sharing.anonymous import AnonymizedTrace
from emulator.views.columns.figures import count_of
from emulator.views.terminal.table import facts_grid

SHOWN_ATTRIBUTES = 12


def render(made: AnonymizedTrace) -> RenderableType:
    """The report of `charkha trace anonymize`."""
    return Group(facts_grid(_lines(made)))


def _lines(made: AnonymizedTrace) -> Iterator[tuple[str, str]]:
    replaced = [
        count_of(made.names, "name"),
        f"ids of {count_of(made.nodes, 'node')}",
        count_of(made.groups, "process group"),
        count_of(made.tags, "tag"),
    ]
    yield "replaced", ", ".join(replaced)
    yield "left out", _dropped(made)
    yield "times", "copied" if made.jitter is None else f"factors from {1 - made.jitter:g} to {1 + made.jitter:g}"
    yield "plays alike", "verified: same operations, sizes and dependencies, in the same order"
    for number, one in enumerate(made.recognisable):
        yield ("still recognisable" if number == 0 else ""), one


def _dropped(made: AnonymizedTrace) -> str:
    names = list(made.dropped)
    more = f" and {len(names) - SHOWN_ATTRIBUTES} more" if len(names) > SHOWN_ATTRIBUTES else ""
    listed = f": {', '.join(names[:SHOWN_ATTRIBUTES])}{more}" if names else ""
    return f"metadata and tensors of the files, {count_of(len(names), 'attribute')}{listed}"
