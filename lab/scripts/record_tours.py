"""Play the tours of `charkha demo` and write what they printed: the tutorials, and the picture in README.

`python -m lab.scripts.record_tours [NAME …]`, as root on a quiet machine; a few minutes. Tours: emulator/annexes/demo.
The name `examples` is that of the traces in lab.scripts.gallery, whose page is docs/examples.md.
"""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from emulator.annexes.demo.command import shown
from emulator.annexes.demo.playing import Played
from emulator.annexes.demo.tours import DEMO, TOURS, Tour
from emulator.exit_codes import DONE
from lab.scripts.gallery import EXAMPLES, played

DOCS = Path(__file__).resolve().parents[2] / "docs"
PICTURE = DOCS / "demo.svg"
LONGEST = 46
"""Lines of a command's output in a page; the rest is counted."""
_IN_EXAMPLE = 18
_IN_PICTURE = {"--out good": 9, "--out bad": 16, "charkha compare": 8}
"""Part of a command → lines of its output in the picture."""
_OTHERWISE = "; 7 where a busy machine leaves it undecided"
_WITHOUT_FONTS = re.sub(r"@font-face \{\{.*?\}\}\n", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)


def page(tour: Tour, outputs: Sequence[str]) -> str:
    """The page of a tour, Markdown.

    Args:
        tour: what was played.
        outputs: of each of its commands, as the page shows them.
    """
    place = "It needs root" if tour.has_lab else "It runs on any machine, over loopback"
    title = tour.title[0].lower() + tour.title[1:]
    opening = (
        f"# Tutorial: {title}\n<!-- made by python -m lab.scripts.record_tours -->\n{tour.reader}\n\n"
        f"[Install](install.md) Charkha and activate its environment (`. .venv/bin/activate`). `charkha demo\n"
        f"{tour.name}` plays these {len(tour.steps)} commands and prints each before it runs. {place}. You can also\n"
        "type them in an empty folder. Progress and warnings, which commands write to stderr, are not shown here.\n"
        "Columns depend on the width of the terminal and on what was measured: `charkha run --explain` and\n"
        "`charkha compare --explain` say what each means, and the [glossary](glossary.md) has the words.\n"
    )
    parts = [opening]
    for number, (step, output) in enumerate(zip(tour.steps, outputs, strict=True), 1):
        code = (
            "" if step.codes == (DONE,) else f"(exit code {step.codes[0]}{_OTHERWISE if len(step.codes) > 1 else ''})\n"
        )
        text = f"```text\n{output}{code}```\n" if output or code else ""
        heading, more = _split(step.why)
        parts.append(f"## {number}. {heading}\n{more}```console\n$ {step.command}\n```\n{text}")
    return "\n".join([*parts, f"{tour.further}\n"])


def _split(why: str) -> tuple[str, str]:
    """The first sentence, as a headline, and the others as a paragraph before the command."""
    first, mark, more = re.fullmatch(r"(.*?)([.?])(?: (.*))?", why, re.DOTALL).groups()  # type: ignore[union-attr]
    return first + mark.replace(".", ""), f"{more}\n\n" if more else ""


@dataclass(frozen=True, slots=True)
class RecordedExample:
    """What was recorded of an example.

    Attributes:
        ranks: of the trace.
        size: of its files, with unit.
        output: of its run, as the page shows it.
    """

    ranks: str
    size: str
    output: str


def examples_page(recorded: Sequence[RecordedExample]) -> str:
    """The page of the example traces, Markdown."""
    rows, parts = "", ""
    for one, facts in zip(EXAMPLES, recorded, strict=True):
        anchor = re.sub(r"[^a-z0-9]+", "-", one.title.lower())
        rows += f"| [{one.title}](#{anchor}) | {facts.ranks} | {facts.size} |\n"
        commands = "".join(f"$ {step.command}\n" for step in one.steps)
        parts += f"\n## {one.title}\n{one.reader}\n\n```console\n{commands}```\n```text\n{facts.output}```\n"
    opening = (
        "# Ten traces\n"
        "Type the commands in a clone of Charkha. They make a trace, write its page, and play it over loopback. The\n"
        "tables were recorded on a virtual machine with two cores. Imported traces come from small files in\n"
        "`lab/recordings`, written by hand in the formats of those tools. The licence of all is Charkha's (MIT).\n"
        "`python -m lab.scripts.record_tours examples` makes this page.\n"
    )
    return f"{opening}\n| trace | ranks | size |\n|---|---|---|\n{rows}{parts}"


def recorded_of(text: str) -> list[RecordedExample]:
    """What the page of the examples has recorded."""
    facts = re.findall(r"^\| \[.*\) \| (.*) \| (.*) \|$", text, re.MULTILINE)
    listed = zip(facts, outputs_of(text), strict=True)
    return [RecordedExample(ranks, size, output) for (ranks, size), output in listed]


def record_example(example: Tour) -> RecordedExample:
    """Make a trace and play it."""
    with played(example) as (folder, done):
        files = list((folder / example.name).iterdir())
        ranks = sum(file.suffix == ".et" for file in files)
        size = sum(file.stat().st_size for file in files)
        return RecordedExample(str(ranks), f"{-(-size // 1000)} kB", excerpt(done[-1].output, _IN_EXAMPLE))


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


def picture(done: Iterable[Played]) -> str:
    """The terminal of a tour as SVG, as wide as its longest line; no font comes from elsewhere."""
    parts = [Text("$ charkha demo", style="bold green")]
    for one in done:
        for part, longest in _IN_PICTURE.items():
            if part in one.step.command and ">" not in one.step.command:
                why, *command = shown(one.step.why, one.step.command).strip().split("\n$ ")
                parts.append(Text(f"\n{why}", style="bright_black"))
                parts.append(Text(f"$ {command[0]}", style="bold green"))
                parts.append(Text("\n".join(one.output.splitlines()[:longest])))
    width = max(cell_len(line) for part in parts for line in part.plain.splitlines()) + 1
    console = Console(record=True, width=width, file=io.StringIO(), color_system="truecolor", force_terminal=True)
    console.print(*parts, sep="\n", end="\n\n")  # the last line of the picture is cut
    return console.export_svg(title="charkha demo", code_format=_WITHOUT_FONTS, unique_id="demo")


def main(names: Sequence[str]) -> None:
    """Record the tours of these names, or all."""
    for name in names or (*TOURS, "examples"):
        if name == "examples":
            page_of_examples = examples_page([record_example(one) for one in EXAMPLES])
            (DOCS / "examples.md").write_text(page_of_examples, encoding="utf-8")
            continue
        with played(TOURS[name]) as (_, done):
            pass
        if name == DEMO.name:
            PICTURE.write_text(picture(done), encoding="utf-8")
            continue
        text = page(TOURS[name], [excerpt(one.output) for one in done])
        (DOCS / f"tutorial-{name}.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
