"""Stored runs as tables: many of them by their manifests, one of them with its statistics."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from emulator.run_folder.manifest import RUNNING, Manifest
from emulator.run_folder.pruning import Removal
from emulator.run_folder.store import StoredRun, firmware_of
from emulator.statistics.classes import JCT
from emulator.statistics.distribution import Distribution
from emulator.statistics.stragglers import SIGNIFICANT, Lateness
from emulator.units import format_duration, format_size
from emulator.views.terminal.summary_table import NONE
from emulator.visible import short, visible

_GAP = "  "
_EVENTS = {"post": "posts (who let the others wait)", "done": "completions (who was served last)"}
_SHOWN_RANKS = 5
_LONGEST_NAME = 48


def render_runs(runs: Sequence[StoredRun], root: Path) -> str:
    """A line per run, newest first, columns as wide as they must be."""
    titles = ("run", "began", "trace", "ranks", "transport", "iterations", "firmware", "status")
    # A thousand rows take rich most of a second; nothing here needs colours or wraps.
    rows = [titles, *(_cells(run, root) for run in runs)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = (_GAP.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)
    return "\n".join(lines)


def _cells(run: StoredRun, root: Path) -> tuple[str, ...]:
    name = str(run.folder.relative_to(root))
    if run.manifest is None:
        return (visible(name), *(NONE,) * 6, run.status)
    manifest = run.manifest
    return (
        visible(name),
        visible(manifest.created[:16].replace("T", " ")),
        short(Path(manifest.trace.path).name or manifest.trace.path, _LONGEST_NAME),
        str(manifest.trace.ranks),
        visible(_transport(manifest)),
        NONE if manifest.status == RUNNING else str(manifest.trials.included),
        short(firmware_of(manifest) or NONE, _LONGEST_NAME),
        run.status,
    )


def _transport(manifest: Manifest) -> str:
    found = manifest.parameters.get("transport")
    return NONE if found is None else str(found.value)


def runs_to_json(runs: Sequence[StoredRun]) -> list[dict[str, Any]]:
    """The same for machines."""
    return [_run_to_json(run) for run in runs]


def _run_to_json(run: StoredRun) -> dict[str, Any]:
    found: dict[str, Any] = {"folder": str(run.folder), "status": run.status, "problem": run.problem}
    manifest = run.manifest
    if manifest is None:
        return found
    return found | {
        "run_id": manifest.run_id,
        "created": manifest.created,
        "trace": dataclasses.asdict(manifest.trace),
        "transport": _transport(manifest),
        "dut": dict(manifest.dut),
        "firmware": firmware_of(manifest),
        "trials": None if manifest.status == RUNNING else dataclasses.asdict(manifest.trials),
    }


def render_removals(removals: Sequence[Removal], *, is_done: bool) -> RenderableType:
    """What went, or would go, and what is kept and why."""
    gone = [one for one in removals if one.kept_because is None]
    verb = "removed" if is_done else "would be removed"
    lines = [f"{verb}: {visible(str(one.run.folder))} ({format_size(one.size_bytes)})" for one in gone]
    lines += [visible(f"kept: {one.run.folder}: {one.kept_because}") for one in removals if one.kept_because]
    size = format_size(sum(one.size_bytes for one in gone))
    lines.append(f"{len(gone)} run{'s' * (len(gone) != 1)} {verb}, {size}, {len(removals) - len(gone)} kept")
    if gone and not is_done:
        lines.append("Nothing was removed: add --yes to do it.")
    return Text("\n".join(lines))


def render_statistics(found: Sequence[Distribution], late: Sequence[Lateness], *, incomplete: int) -> RenderableType:
    """Percentiles of every class, then who is late."""
    parts: list[RenderableType] = [_distributions(found), Text()]
    parts += [line for one in late for line in _lateness(one)]
    if incomplete:
        parts.append(Text(f"{incomplete} measurements lack a member and are left out."))
    negative = sum(one.negative for one in found)
    if negative:
        parts.append(Text(f"{negative} measurements have a negative time and are left out."))
    return Group(*parts)


def _distributions(found: Sequence[Distribution]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("class", no_wrap=False)
    for title in ("n", "p50", "95 % interval", "p90", "p95", "p99", "p99.9", "max", "CV"):
        table.add_column(title, justify="right", no_wrap=True)
    for one in found:
        tails = (one.p90_ns, one.p95_ns, one.p99_ns, one.p999_ns, one.max_ns)
        cv = NONE if one.variation is None else f"{100 * one.variation:.1f} %"
        name = "JCT" if one.key.collective == JCT else str(one.key)
        table.add_row(name, str(one.samples), _time(one.p50_ns), _interval(one), *map(_time, tails), cv)
    return table


def _time(value_ns: float | None) -> str:
    return NONE if value_ns is None else format_duration(value_ns)


def _interval(one: Distribution) -> str:
    interval = one.median_interval_ns
    return NONE if interval is None else f"{format_duration(interval.low)} to {format_duration(interval.high)}"


def _lateness(late: Lateness) -> Iterator[RenderableType]:
    yield Text(f"Last {_EVENTS[late.event]}:", style="bold")
    if not late.stragglers:
        yield Text(f"  no rank is last more often than chance gives (p < {SIGNIFICANT:g})")
    for one in late.stragglers[:_SHOWN_RANKS]:
        yield Text(
            f"  rank {one.rank}: last in {one.last} of {one.of} collectives where chance gives {one.expected:.3g}, "
            f"by {_time(one.behind_ns)} at the median; most often last in {one.iterations} of {one.of_iterations} "
            f"iterations (p = {one.p:.2g})"
        )
    for step in [step for step in late.steps if step.p < SIGNIFICANT][:_SHOWN_RANKS]:
        name, group = (short(str(one), _LONGEST_NAME) for one in (step.name, step.group))
        yield Text(
            f"  {name} ({step.kind}, group {group}): rank {step.rank} last in {step.last} of {step.of}, "
            f"by {_time(step.behind_ns)}; first to last {_time(step.spread_ns)} (p = {step.p:.2g})"
        )


def statistics_to_json(found: Sequence[Distribution], late: Sequence[Lateness], *, incomplete: int) -> dict[str, Any]:
    """The same for machines: units in the names, null where the table has a dash."""
    return {
        "classes": [_distribution_to_json(one) for one in found],
        "incomplete": incomplete,
        "lateness": [dataclasses.asdict(one) for one in late],
    }


def _distribution_to_json(one: Distribution) -> dict[str, Any]:
    document = dataclasses.asdict(one)
    interval = one.median_interval_ns
    return {
        **document.pop("key"),
        **document,
        "median_interval_ns": None if interval is None else interval._asdict(),
    }
