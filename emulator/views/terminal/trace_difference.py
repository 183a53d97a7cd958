"""How two trace sets differ, for a terminal."""

from __future__ import annotations

from rich.console import Group, RenderableType

from emulator.trace.analysis.compare import Aspect, Difference, TraceFinding
from emulator.views.columns.columns import Column, Header, explain, paragraphs
from emulator.views.terminal.table import FittedTable
from emulator.visible import visible

_MEANING = {
    Aspect.RANKS: "number of ranks",
    Aspect.GROUPS: "process groups that perform collectives, by their ranks; names are ignored",
    Aspect.OPERATIONS: "collectives by process group and number in it; messages by sender, receiver and number",
    Aspect.TYPES: "type of the k-th collective of a group",
    Aspect.SIZES: "size and splits of an operation at each of its ranks",
    Aspect.ROOTS: "root of a rooted collective",
    Aspect.DEPENDENCIES: "which communications each communication waits for, directly or through compute",
    Aspect.STORAGE: "reads and writes of files by each rank, in canonical order, and their sizes",
    Aspect.COMPUTE: "number of nodes on CPU and device of each rank",
    Aspect.NAMES: "name of a communication node at each rank",
    Aspect.DURATIONS: "compute time as it is played and recorded time of communication: by node, or the sums of a rank "
    "if its nodes are others",
}
_WORK = {Aspect.RANKS, Aspect.GROUPS, Aspect.OPERATIONS, Aspect.TYPES}
"""Sets that differ in one of them do not play variants of one job."""
_Row = tuple[Aspect, TraceFinding]
_COLUMNS: tuple[Column[_Row], ...] = (
    Column("aspect", "what was compared", cell=lambda row: row[0].value, is_number=False),
    Column("differ", "how many differ, or are in only one set", cell=lambda row: f"{row[1].differing:,}"),
    Column("of", "how many were compared", cell=lambda row: f"{row[1].compared:,}"),
    Column(
        "first", "the first of them", cell=lambda row: visible("; ".join(row[1].first[:1])), is_number=False, folds=40
    ),
)
EXPLAIN = paragraphs(
    explain(_COLUMNS, title="Differences:"),
    explain([Header(aspect.value, meaning) for aspect, meaning in _MEANING.items()], title="Aspects:"),
)


def sentence(found: Difference) -> str:
    """The answer in one line."""
    if found.is_same:
        return "the same"
    *others, last = [aspect.value for aspect in found.aspects]
    listed = f"{', '.join(others)} and {last}" if others else last
    return f"different work: {listed}" if _WORK.intersection(found.aspects) else f"the same but for {listed}"


def render(found: Difference) -> RenderableType:
    """The report of `charkha trace diff`."""
    parts: list[RenderableType] = [sentence(found)]
    rows = [(aspect, finding) for aspect, finding in found.findings.items() if finding.differing]
    if rows:
        parts += ["", FittedTable(_COLUMNS, rows)]
    if found.duration_ratio is not None and Aspect.DURATIONS in found.aspects:
        least, middle, most = found.duration_ratio
        parts += ["", f"Durations, second / first: {least:.3f} / {middle:.3f} / {most:.3f} (least, median, most)"]
    return Group(*parts)
