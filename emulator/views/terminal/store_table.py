"""Stored runs for a terminal: a list of them, what was removed, and the statistics of one run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from rich.console import Group, RenderableType
from rich.text import Text

from emulator.results.run_folder.manifest import RUNNING, Manifest
from emulator.results.run_folder.store import Removal, StoredRun
from emulator.results.statistics.method.distribution import Distribution
from emulator.results.statistics.worst.stragglers import SIGNIFICANCE, Lateness
from emulator.units import format_size
from emulator.views.columns.class_columns import DISTRIBUTION_COLUMNS
from emulator.views.columns.columns import Column, explain, paragraphs
from emulator.views.columns.figures import NONE, count_of, duration_cell, transport_of
from emulator.views.columns.result_columns import RESULT_COLUMNS, result_columns, result_of
from emulator.views.columns.uncertainty_columns import UNCERTAINTY_COLUMNS, StatedFigure, sources
from emulator.views.terminal.table import FittedTable
from emulator.visible import short, visible

_EVENTS = {"post": "to post (the others waited for this rank)", "done": "to complete (this rank was served last)"}
_SHOWN_RANKS = 5
_LONGEST_NAME, _LONGEST_TRACE = 48, 32


def _known(cell: Callable[[Manifest], str]) -> Callable[[StoredRun], str]:
    """A cell that is a dash if the manifest cannot be read."""
    return lambda run: NONE if run.manifest is None else cell(run.manifest)


def _run_columns(root: Path) -> tuple[Column[StoredRun], ...]:
    return (
        Column(
            "run",
            "folder of the run, below the root",
            cell=lambda run: visible(str(run.folder.relative_to(root))),
            is_number=False,
        ),
        Column(
            "began",
            "date and time of the start (UTC)",
            cell=_known(lambda manifest: visible(manifest.created[:16].replace("T", " "))),
            is_number=False,
            sacrifice=5,
        ),
        *result_columns(lambda run: result_of(run.manifest)),
        Column(
            "trace",
            "name of the trace",
            cell=_known(lambda manifest: short(Path(manifest.trace.path).name or manifest.trace.path, _LONGEST_TRACE)),
            is_number=False,
            sacrifice=6,
        ),
        Column("ranks", "ranks of the trace", cell=_known(lambda manifest: str(manifest.trace.ranks)), sacrifice=9),
        Column(
            "transport",
            "transport of the run",
            cell=_known(lambda manifest: visible(transport_of(manifest))),
            is_number=False,
            sacrifice=8,
        ),
        Column(
            "iterations",
            "measured iterations that count: warm-up and excluded ones do not",
            cell=_known(lambda manifest: NONE if manifest.status == RUNNING else str(manifest.trials.included)),
            sacrifice=7,
        ),
        Column("status", "complete, aborted, interrupted, running or unreadable", key="status", is_number=False),
    )


EXPLAIN = paragraphs(
    explain(_run_columns(Path()), title="List of runs:"),
    explain(DISTRIBUTION_COLUMNS, title="Statistics of a run: cct of every class, and JCT:"),
    explain(UNCERTAINTY_COLUMNS, title="Uncertainty of a run's figures (docs/uncertainty.md):"),
)


def render_runs(runs: Sequence[StoredRun], root: Path) -> RenderableType:
    """A row per run."""
    return FittedTable(_run_columns(root), runs)


def render_result(manifest: Manifest) -> RenderableType:
    """The same of one run."""
    return FittedTable(RESULT_COLUMNS, [result_of(manifest)])


def render_removals(removals: Sequence[Removal], *, is_done: bool) -> RenderableType:
    """Which runs were removed or would be, and which are kept and why."""
    gone = [one for one in removals if one.kept_because is None]
    verb = "removed" if is_done else "would be removed"
    lines = [f"{verb}: {visible(str(one.run.folder))} ({format_size(one.size_bytes)})" for one in gone]
    lines += [visible(f"kept: {one.run.folder}: {one.kept_because}") for one in removals if one.kept_because]
    size = format_size(sum(one.size_bytes for one in gone))
    kept = f", {len(removals) - len(gone)} kept" if len(removals) > len(gone) else ""
    lines.append(f"{count_of(len(gone), 'run')} {verb}, {size}{kept}")
    if gone and not is_done:
        lines.append("Nothing was removed: add --yes to remove them.")
    return Text("\n".join(lines))


def render_uncertainty(rows: Sequence[StatedFigure]) -> RenderableType:
    """The budget of every figure."""
    return FittedTable(UNCERTAINTY_COLUMNS, rows, more=sources(rows))


def render_statistics(found: Sequence[Distribution], late: Sequence[Lateness], *, incomplete: int) -> RenderableType:
    """Percentiles of every class, then which ranks are late.

    Args:
        late: who was last, in posting and in completing.
        incomplete: measurements that not every member reported.
    """
    parts: list[RenderableType] = [FittedTable(DISTRIBUTION_COLUMNS, found), Text()]
    parts += [line for one in late for line in _lateness(one)]
    if incomplete:
        parts.append(Text(f"{incomplete} measurements lack a member and are omitted."))
    negative = sum(one.negative for one in found)
    if negative:
        parts.append(Text(f"{negative} measurements have a negative time and are omitted."))
    return Group(*parts)


def _lateness(late: Lateness) -> Iterator[RenderableType]:
    yield Text(f"Last {_EVENTS[late.event]}:", style="bold")
    if not late.stragglers:
        yield Text(f"  no rank is last more often than by chance (p < {SIGNIFICANCE:g})")
    for one in late.stragglers[:_SHOWN_RANKS]:
        yield Text(
            f"  rank {one.rank}: last in {one.last} of {one.of} collectives ({one.expected:.3g} expected by chance), "
            f"{duration_cell(one.behind_ns)} behind at the median; most often last in {one.iterations} of "
            f"{one.of_iterations} iterations (p = {one.p:.2g})"
        )
    for step in [step for step in late.steps if step.p < SIGNIFICANCE][:_SHOWN_RANKS]:
        name, group = (short(str(one), _LONGEST_NAME) for one in (step.name, step.group))
        yield Text(
            f"  {name} ({step.kind}, group {group}): rank {step.rank} last in {step.last} of {step.of}, "
            f"{duration_cell(step.behind_ns)} behind; first to last {duration_cell(step.spread_ns)} (p = {step.p:.2g})"
        )
