"""The table of comparisons for people, and everything that was read for machines."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from emulator.units import format_duration
from lab.benchmarks.peers.environment import Load
from lab.benchmarks.peers.quantities import Quantity, Target, Verdict
from lab.benchmarks.peers.rounds import Comparison, Series
from lab.benchmarks.peers.settings import Setting
from lab.benchmarks.peers.spread import Spread

FORMAT = 1
NONE = "-"
TOO_NOISY = "not on this machine: too noisy"
_TIMES = ("cct", "longest", "span")
_COLUMNS: Sequence[tuple[str, Literal["left", "right"]]] = (
    ("ours", "left"),
    ("median", "right"),
    ("peer", "left"),
    ("median", "right"),
    ("ratio [min, max]", "right"),
    ("pairs", "right"),
    ("target", "left"),
)
_STYLES = {Verdict.REACHED: "green", Verdict.MISSED: "red", Verdict.UNDECIDED: "yellow"}


@dataclass(frozen=True, slots=True)
class Measured:
    """A setting with what came of it, and what the machine was busy with."""

    setting: Setting
    series: dict[str, Series]
    comparisons: Sequence[Comparison]
    load: Load


def render(measured: Sequence[Measured]) -> RenderableType:
    """A table for each setting."""
    return Group(*(part for one in measured for part in _parts(one)))


def _parts(measured: Measured) -> Iterator[RenderableType]:
    setting = measured.setting
    table = Table(title=setting.title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    for title, justify in _COLUMNS:
        table.add_column(title, justify=justify, overflow="fold")
    for comparison in measured.comparisons:
        table.add_row(*_cells(comparison))
    yield table
    better = "lower is better" if setting.quantity.is_better_low else "higher is better"
    yield Text(f"  ratio = ours / peer, {better}. {_sentence(setting.remark)}", style="dim")
    yield Text(f"  {_load(measured.load)}", style="dim")
    yield from (Text(f"  {line}", style="dim") for line in _times(measured))
    yield from (Text(f"  {name}: {why}", style="yellow") for name, why in _problems(measured))
    yield Text()


def _cells(comparison: Comparison) -> list[str | Text]:
    quantity = comparison.setting.quantity
    judged = comparison.judged
    return [
        comparison.ours,
        _shown(quantity, comparison.own, ranged=comparison.peer is None),
        comparison.peer or NONE,
        _shown(quantity, comparison.other, ranged=comparison.too_noisy),
        TOO_NOISY if comparison.too_noisy else _ratio(comparison.ratio),
        str(judged.count if judged else 0),
        _target(comparison),
    ]


def _shown(quantity: Quantity, value: Spread | None, *, ranged: bool) -> str:
    if value is None:
        return NONE
    if not ranged:
        return quantity.show(value.median)
    return f"{quantity.show(value.median)} [{quantity.show(value.least)}, {quantity.show(value.most)}]"


def _ratio(ratio: Spread | None) -> str:
    return NONE if ratio is None else f"{ratio.median:.2f} [{ratio.least:.2f}, {ratio.most:.2f}]"


def _target(comparison: Comparison) -> Text:
    if comparison.target is None or comparison.verdict is None:
        return Text(NONE)
    verdict = comparison.verdict
    return Text(f"{_bound(comparison, comparison.target)}: {verdict.value}", style=_STYLES[verdict])


def _bound(comparison: Comparison, target: Target) -> str:
    bound = f"{target.bound:g}" if comparison.peer else comparison.setting.quantity.show(target.bound)
    return f"{'≤' if target.is_upper else '≥'} {bound}"


def _load(load: Load) -> str:
    averages = f"load average {load.before:.1f} before, {load.after:.1f} after"
    return averages if load.stolen is None else f"{averages}; steal {load.stolen * 100:.1f} %"


def _sentence(text: str) -> str:
    return f"{text}." if text else ""


def _times(measured: Measured) -> Iterator[str]:
    """The three times of each system that was timed by rank: medians over the rounds."""
    for name, series in measured.series.items():
        readings = [reading.details for reading in series.readings if reading and "cct_ns" in reading.details]
        if readings:
            medians = {key: statistics.median(reading[f"{key}_ns"] for reading in readings) for key in _TIMES}
            times = ", ".join(f"{key} {format_duration(value)}" for key, value in medians.items())
            early = sum(reading.get("early_iterations", 0) for reading in readings)
            total = sum(reading["iterations"] for reading in readings)
            yield f"{name}: {times}" + (f"; payload came early in {early} of {total} iterations" if early else "")


def _problems(measured: Measured) -> Iterator[tuple[str, str]]:
    return ((name, problem) for name, series in measured.series.items() for problem in series.problems)


def to_json(measured: Sequence[Measured], *, facts: dict[str, Any]) -> dict[str, Any]:
    """Every reading of every round, and what the table says; units are in the names."""
    return {"format": FORMAT, **facts, "settings": [_setting(one) for one in measured]}


def _setting(measured: Measured) -> dict[str, Any]:
    setting = measured.setting
    return {
        "key": setting.key,
        "title": setting.title,
        "quantity": setting.quantity.value,
        "remark": setting.remark,
        "load_average": {"before": measured.load.before, "after": measured.load.after},
        "steal_fraction": measured.load.stolen,
        "subjects": {
            name: {
                "readings": [None if r is None else {"value": r.value, **r.details} for r in series.readings],
                "problems": series.problems,
            }
            for name, series in measured.series.items()
        },
        "comparisons": [_comparison(comparison) for comparison in measured.comparisons],
    }


def _comparison(comparison: Comparison) -> dict[str, Any]:
    verdict = comparison.verdict
    return {
        "ours": comparison.ours,
        "peer": comparison.peer,
        **{key: _or_none(getattr(comparison, key)) for key in ("own", "other", "ratio", "target")},
        "too_noisy": comparison.too_noisy,
        "verdict": verdict.value if verdict else None,
    }


def _or_none(value: Spread | Target | None) -> dict[str, Any] | None:
    return None if value is None else asdict(value)
