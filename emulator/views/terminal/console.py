"""Results on stdout: what a trace says is shown as text, never obeyed by the terminal, and no line ends in blanks."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderableType, RenderHook, RenderResult
from rich.segment import Segment

from emulator.visible import visible

WIDTH = 120
"""Columns where stdout is no terminal."""


def console() -> Console:
    """For results: stdout, as wide as it is, 120 columns where that is unknown."""
    # No markup, no emoji: what a trace is called, and what is in it, is shown as it is, ":ab:" in an address, too.
    plain = _Results(markup=False, emoji=False)
    out = plain if plain.is_terminal else _Results(width=WIDTH, markup=False, emoji=False)
    out.push_render_hook(_AsText())
    return out


class _Results(Console):
    def on_broken_pipe(self) -> None:
        """Leave it to the command what that means; rich would exit with 1."""
        raise BrokenPipeError


class _AsText(RenderHook):
    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        return [_Shown(one) for one in renderables]


@dataclasses.dataclass(frozen=True, slots=True)
class _Shown:
    what: RenderableType

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for line in Segment.split_lines(console.render(self.what, options)):
            yield from reversed(list(_trimmed(line)))
            yield Segment.line()


def _trimmed(line: list[Segment]) -> Iterator[Segment]:
    """The segments from the last to the first, without the blanks at the end of the line."""
    is_end = True
    for segment in reversed(line):
        text = visible(segment.text)
        text = text.rstrip(" ") if is_end else text
        is_end = is_end and not text
        yield Segment(text, segment.style)
