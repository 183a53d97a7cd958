"""A comparison as a JSON document: units in the keys, nothing rounded, null for an unknown value."""

from __future__ import annotations

import dataclasses
from typing import Any

from emulator.results.comparison.causes import causes
from emulator.results.comparison.groups import RunGroup
from emulator.results.comparison.verdicts import ClassComparison, Comparison, Effect, PairComparison, Side, Verdict
from emulator.results.run_folder.store import firmware_of


def comparison_to_json(comparison: Comparison) -> dict[str, Any]:
    """Everything that the table shows, and the runs behind it."""
    return {
        "margin": comparison.rules.margin,
        "quantile": comparison.rules.quantile,
        "seed": comparison.rules.seed,
        "find": comparison.rules.find,
        "forced": comparison.is_forced,
        "differences": [dataclasses.asdict(one) for one in comparison.comparability.refused],
        "notes": list(comparison.comparability.notes),
        "passes_gate": comparison.passes_gate(is_strict=False),
        "is_undecided": comparison.is_undecided,
        "passes_strict_gate": comparison.passes_gate(is_strict=True),
        "groups": [_group(one) for one in comparison.groups],
        "pairs": [_pair(one) for one in comparison.pairs],
    }


def _group(group: RunGroup) -> dict[str, Any]:
    return {
        "name": group.name,
        "firmware": firmware_of(group.runs[0].manifest),
        "attempted": group.attempted,
        "runs": [{"folder": str(run.folder), "run_id": run.manifest.run_id} for run in group.runs],
        "left_out": [{"folder": str(one.folder), "why": one.reason} for one in group.excluded],
    }


def _pair(pair: PairComparison) -> dict[str, Any]:
    return {
        "baseline": pair.baseline.name,
        "other": pair.other.name,
        "paired": pair.is_paired,
        "verdicts": {verdict.value: pair.count(verdict) for verdict in Verdict},
        "classes": [_class(one) for one in pair.classes],
        "causes": [dataclasses.asdict(one) for one in causes(pair.baseline, pair.other)],
    }


def _class(one: ClassComparison) -> dict[str, Any]:
    return {
        **dataclasses.asdict(one.key),
        "baseline": _side(one.baseline),
        "other": _side(one.other),
        **_effect("", one.effect),
        "p": one.p,
        "holm_p": one.holm_p,
        **_effect("p99_", one.tail),
        "verdict": one.verdict.value,
        "needs_runs": one.needs,
        "finds_ratio": one.finds,
        "tester_percent": one.tester_percent,
        "needs_runs_to_find": one.needs_to_find,
        "why": one.why or None,
    }


def _side(side: Side) -> dict[str, Any]:
    return {
        "runs": side.runs,
        "samples": side.samples,
        "median_ns": side.median_ns,
        "variation": side.variation,
        "values_ns": list(side.values_ns),
    }


def _effect(prefix: str, effect: Effect | None) -> dict[str, Any]:
    interval = None if effect is None else effect.interval
    return {
        f"{prefix}ratio": None if effect is None else effect.ratio,
        f"{prefix}ratio_low": None if interval is None else interval.low,
        f"{prefix}ratio_high": None if interval is None else interval.high,
    }
