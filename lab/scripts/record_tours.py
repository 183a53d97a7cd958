"""Play the tours of `charkha demo` and write what they printed: the tutorials, and the picture in README.

`python -m lab.scripts.record_tours [NAME …]`, as root on a quiet machine; a few minutes. Tours: emulator/annexes/demo.
"""

from __future__ import annotations

import io
import re
import sys
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

from emulator.annexes.demo.command import shown
from emulator.annexes.demo.place import LabNamespaces
from emulator.annexes.demo.playing import Played, play
from emulator.annexes.demo.tours import DEMO, TOURS, Tour

DOCS = Path(__file__).resolve().parents[2] / "docs"
PICTURE = DOCS / "demo.svg"
LONGEST = 34
"""Lines of a command's output in a page; the rest is counted."""
_IN_PICTURE = {"--out good": 9, "--out bad": 16, "charkha compare": 8}
"""Part of a command → lines of its output in the picture."""
_WITHOUT_FONTS = re.sub(r"@font-face \{\{.*?\}\}\n", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)


def record(tour: Tour) -> list[Played]:
    """Play a tour in a temporary folder."""
    with (
        tempfile.TemporaryDirectory(prefix="charkha-tour-") as folder,
        LabNamespaces.make() if tour.has_lab else nullcontext() as place,
    ):
        played = []
        for one in play(tour, Path(folder), place=place, record=True):
            played.append(one)
            print(f"{one.seconds:6.1f} s  {one.step.command.splitlines()[0]}", file=sys.stderr)
        return played


def page(tour: Tour, outputs: Sequence[str]) -> str:
    """The page of a tour, Markdown.

    Args:
        tour: what was played.
        outputs: of each of its commands, as the page shows them.
    """
    place = "as root" if tour.has_lab else "on any machine, over loopback"
    title = tour.title[0].lower() + tour.title[1:]
    opening = (
        f"# Tutorial: {title}\n{tour.reader}\n\n"
        f"`charkha demo {tour.name}` plays these {len(tour.steps)} commands {place}.\n"
        "It prints each before it runs; or type them in an empty folder. `python -m lab.scripts.record_tours` makes\n"
        "this page.\n"
    )
    parts = [opening]
    for number, (step, output) in enumerate(zip(tour.steps, outputs, strict=True), 1):
        code = f"(exit code {' or '.join(map(str, step.codes))})\n" if step.codes != (0,) else ""
        text = f"```text\n{output}{code}```\n" if output or code else ""
        parts.append(f"## {number}. {step.why}\n```console\n$ {step.command}\n```\n{text}")
    return "\n".join([*parts, f"{tour.further}\n"])


def outputs_of(text: str) -> list[str]:
    """What a page shows of each command, without the exit code."""
    return [
        re.sub(r"\(exit code .*\)\n", "", next(iter(re.findall(r"```text\n(.*?)```", part, re.DOTALL)), ""))
        for part in text.split("\n## ")[1:]
    ]


def excerpt(output: str, longest: int = LONGEST) -> str:
    """The first lines of an output, and how many follow."""
    lines = output.splitlines()
    more = [f"… {len(lines) - longest} more lines"] if len(lines) > longest + 1 else lines[longest:]
    return "".join(f"{line.rstrip()}\n" for line in [*lines[:longest], *more])


def masked(line: str) -> str:
    """A line without its figures."""
    return re.sub(r"\d[\d.,:]*", "#", line)


def picture(played: Iterable[Played]) -> str:
    """The terminal of a tour as SVG; no font comes from elsewhere."""
    console = Console(record=True, width=118, file=io.StringIO(), color_system="truecolor", force_terminal=True)
    console.print(Text("$ charkha demo", style="bold green"))
    for one in played:
        for part, longest in _IN_PICTURE.items():
            if part in one.step.command and ">" not in one.step.command:
                why, *command = shown(one.step.why, one.step.command).strip().split("\n$ ")
                console.print(Text(f"\n{why}", style="bright_black"))
                console.print(Text(f"$ {command[0]}", style="bold green"))
                console.print(Text("\n".join(line[:118] for line in one.output.splitlines()[:longest])))
    return console.export_svg(title="charkha demo", code_format=_WITHOUT_FONTS, unique_id="demo")


def main(names: Sequence[str]) -> None:
    """Record the tours of these names, or all."""
    for name in names or TOURS:
        played = record(TOURS[name])
        if name == DEMO.name:
            PICTURE.write_text(picture(played), encoding="utf-8")
            continue
        text = page(TOURS[name], [excerpt(one.output) for one in played])
        (DOCS / f"tutorial-{name}.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
