"""What a notebook needs: commands as functions, and tables and pictures of reports."""

from __future__ import annotations

import contextlib
import html
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from emulator.errors import InputError

if TYPE_CHECKING:
    from emulator.views.html.page.document import Page

_BARE = "<style>header.top, footer, .skip {display: none} main {padding: 0}</style></head>"


@dataclass(frozen=True, slots=True)
class OfflinePage:
    """A page that opens offline: a notebook shows it in a frame.

    Attributes:
        html: the page.
        height: of the frame, pixels.
    """

    html: str
    height: int = 560

    def __repr__(self) -> str:
        return f"<OfflinePage: {html.unescape(self.html.partition('<title>')[2].partition('</title>')[0])}>"

    def _repr_html_(self) -> str:
        text = html.escape(self.html)
        return f'<iframe srcdoc="{text}" width="100%" height="{self.height}" style="border: 0"></iframe>'

    def save(self, path: str | Path) -> Path:
        """Write it as an HTML file, and return its path."""
        Path(path).write_text(self.html, encoding="utf-8")
        return Path(path)


class CommandAnswer:
    """What a command says: `print` and a notebook show its table, `facts` is what it prints with --json.

    Attributes:
        code: its exit code; of `judge`, it is that of the verdict.
    """

    def __init__(self, command: str, arguments: Sequence[object], options: Mapping[str, object]) -> None:
        self._words = _words(command, arguments, options)
        self.code, self._text = _run(self._words)

    @cached_property
    def facts(self) -> dict[str, Any]:
        """Every figure, with its unit in its key."""
        facts: dict[str, Any] = json.loads(_run([*self._words, "--json"])[1])
        return facts

    def __str__(self) -> str:
        return self._text

    __repr__ = __str__


def picture_of(page: Page, name: str | None, default: str) -> OfflinePage:
    """A chart of a page.

    Raises:
        InputError: there is no such chart.
    """
    from emulator.views.html.page.document import only, render

    if (name or default) not in page.pictures:
        raise InputError(f"there is no picture {name or default!r}; choose from {', '.join(page.pictures)}")
    return OfflinePage(render(only(page, name or default)).replace("</head>", _BARE, 1))


def table_html(page: Page, identifier: str, heading: str) -> str:
    """A table of a page below a heading, for a notebook; the heading alone if the page does not have it."""
    from emulator.views.html.page.document import Table, table_html

    blocks = [block for section in page.sections for block in section.blocks]
    tables = [table_html(one) for one in blocks if isinstance(one, Table) and one.identifier == identifier]
    return "".join([f"<p>{html.escape(heading)}</p>", *tables])


def check(trace: str | Path, **options: object) -> CommandAnswer:
    """`charkha trace check`: what is in a trace, and the proof that playing it ends.

    Raises:
        TraceError: it cannot be played; the error names file, node or ranks.
    """
    return CommandAnswer("trace check", [trace], options)


def plan(trace: str | Path | None = None, **options: object) -> CommandAnswer:
    """`charkha plan`: what a network would have to carry.

    Raises:
        TraceError, TopologyError, PlanError: the trace, the topology, or how they fit together.
    """
    return CommandAnswer("plan", [] if trace is None else [trace], options)


def judge(run: Any, rules: str | Path | None = None, **options: object) -> CommandAnswer:
    """`charkha runs judge`: the verdict on a run; `code` is 0 for PASS.

    Raises:
        InputError: the rules are wrong.
        ResultError: the run cannot be read.
    """
    return CommandAnswer("runs judge", [run] if rules is None else [run, rules], options)


def generate(workload: str, *arguments: object, out: str | Path, **options: object) -> Path:
    """`charkha trace generate`: make a trace, and return its folder.

    Raises:
        InputError: an option does not fit, or the folder is in use.
    """
    _run(_words(f"trace generate {workload}", arguments, {"out": out, **options}))
    return Path(out)


def convert(source: str | Path, target: str | Path, **options: object) -> Path:
    """`charkha trace convert`: rewrite a trace or another tool's recording as .et; returns what was written.

    Raises:
        TraceError: the source cannot be read.
        InputError: the target is in use.
    """
    _run(_words("trace convert", [source, target], options))
    return Path(target)


def view(trace: str | Path, **options: object) -> OfflinePage:
    """`charkha trace view`: a trace as a page.

    Raises:
        TraceError: it cannot be read.
    """
    _, printed = _run(_words("trace view", [trace], options))
    return OfflinePage(Path(printed.splitlines()[0]).read_text(encoding="utf-8"), height=800)


def export(run: Any, to: str, **options: object) -> Path:
    """`charkha runs export`: a run in the format of another tool; returns what was written.

    Raises:
        InputError: there is no such format, or the target exists.
        ResultError: the run cannot be read.
    """
    _, printed = _run(_words("runs export", [run], {"to": to, **options}))
    return Path(printed.splitlines()[0])


def _words(command: str, arguments: Sequence[object], options: Mapping[str, object]) -> list[str]:
    """The words of a command line: `max_bytes=8` is `--max-bytes 8`, `n=8` is `-n 8`, `json=True` is `--json`."""
    words = [*command.split(), *(str(getattr(one, "folder", one)) for one in arguments)]
    for name, value in options.items():
        if value is not None and value is not False:
            words.append(f"-{name}" if len(name) == 1 else f"--{name.replace('_', '-')}")
            words += [] if value is True else [str(value)]
    return words


def _run(words: Sequence[str]) -> tuple[int, str]:
    """Run a command in this process: its exit code, and what it prints as its result."""
    from emulator.cli.main import run

    with contextlib.redirect_stdout(io.StringIO()) as printed:
        code = run(words)
    return code, printed.getvalue().rstrip("\n")
