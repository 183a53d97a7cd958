"""A comparison as a JSON document: units in the keys, nothing rounded, null for an unknown value."""

from __future__ import annotations

import dataclasses
from typing import Any

from emulator.results.comparison.causes import causes
from emulator.results.comparison.groups import RunGroup
from emulator.results.comparison.verdicts import ClassVerdict, ComparisonRules, GroupComparison, PairComparison
from emulator.results.run_folder.store import firmware_of
from emulator.views.columns.columns import row_to_json
from emulator.views.columns.comparison_columns import class_columns

_CLASS = class_columns(ComparisonRules(), baseline="", other="")


def comparison_to_json(comparison: GroupComparison) -> dict[str, Any]:
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
        "verdicts": {verdict.value: pair.count(verdict) for verdict in ClassVerdict},
        "classes": [row_to_json(_CLASS.values(), one) for one in pair.classes],
        "causes": [dataclasses.asdict(one) for one in causes(pair.baseline, pair.other)],
    }
