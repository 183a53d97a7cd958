"""What a terminal of some width shows."""

import io
from collections.abc import Mapping

from rich.console import Console, RenderableType


def shown(renderable: RenderableType, *, width: int = 120) -> str:
    """The text of a renderable, without trailing blanks."""
    out = io.StringIO()
    Console(width=width, file=out, markup=False, emoji=False).print(renderable)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def rows_of(text: str) -> list[list[str]]:
    """The words of every line below the rule of the first table."""
    lines = text.splitlines()
    rule = next(at for at, line in enumerate(lines) if line.startswith("─"))
    return [line.split() for line in lines[rule + 1 :]]


def told(cases: Mapping[str, RenderableType], *, width: int = 120) -> str:
    """What is shown in each case, below its name."""
    return "\n\n".join(f"== {name}\n{shown(one, width=width)}" for name, one in cases.items()) + "\n"
