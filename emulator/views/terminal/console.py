"""The console for results: names from traces cannot control the terminal, and no line has trailing blanks."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Iterator

from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderableType, RenderHook, RenderResult
from rich.segment import Segment

from emulator.visible import visible

WIDTH = 120
"""Width if stdout is not a terminal, columns."""


def console() -> Console:
    """A console on stdout: as wide as the terminal, else 120 columns."""
    # No markup and no emoji: names and addresses (":ab:") are shown as they are.
    plain = _Results(markup=False, emoji=False)
    out = plain if plain.is_terminal else _Results(width=WIDTH, markup=False, emoji=False)
    out.push_render_hook(_AsText())
    return out


def as_text(what: RenderableType) -> str:
    """What the console shows of it when stdout is no terminal."""
    text = io.StringIO()
    out = _Results(file=text, width=WIDTH, markup=False, emoji=False)
    out.push_render_hook(_AsText())
    out.print(what)
    return text.getvalue().rstrip("\n")


class _Results(Console):
    def on_broken_pipe(self) -> None:
        """Let the command handle it; rich would exit with 1."""
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
    """The segments from last to first, without trailing blanks."""
    is_end = True
    for segment in reversed(line):
        text = visible(segment.text)
        text = text.rstrip(" ") if is_end else text
        is_end = is_end and not text
        yield Segment(text, segment.style)
