"""Traces, plans, runs, comparisons and verdicts as JSON documents.

Units are in the keys, nothing is rounded, and an unknown value is null.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from emulator.planner.network.link_loads import FlowLoad, LinkLoad
from emulator.planner.network.load_balance import (
    equal_cost,
    observed_difference,
    oversubscription,
    tiers,
)
from emulator.planner.network.plan import Plan
from emulator.results.comparison.causes import causes
from emulator.results.comparison.groups import RunGroup
from emulator.results.comparison.interference import Interference, JobInterference
from emulator.results.comparison.verdicts import ClassVerdict, ComparisonRules, GroupComparison, PairComparison
from emulator.results.run_folder.manifest import RUNNING, Manifest
from emulator.results.run_folder.store import StoredRun, firmware_of
from emulator.results.statistics.method.distribution import Distribution
from emulator.results.statistics.summary import RunSummary
from emulator.results.statistics.sweep import SweepTable
from emulator.results.statistics.worst.stragglers import Lateness
from emulator.results.verdict.judge import Verdict
from emulator.topology.paths import Paths
from emulator.trace.analysis.summary import Summary
from emulator.trace.meaning.imported import DROPPED, GUESSED
from emulator.views.columns.class_columns import CLASS_COLUMNS, SWEEP_COLUMNS
from emulator.views.columns.columns import row_to_json
from emulator.views.columns.comparison_columns import class_columns
from emulator.views.columns.event_columns import EVENT_COLUMNS
from emulator.views.columns.figures import transport_of
from emulator.views.columns.interference_columns import INTERFERENCE_COLUMNS
from emulator.views.columns.plan_columns import CHOICE_COLUMNS, OPERATION_COLUMNS, TIER_COLUMNS
from emulator.views.columns.result_columns import RESULT_COLUMNS, VERDICT_COLUMNS, result_of
from emulator.views.columns.worst_columns import WORST_FLOW_COLUMNS
from emulator.views.verdict_text import headline

LISTED_LINKS = 4096
"""Links in the document; if there are more, the most loaded ones."""


def plan_to_json(plan: Plan, *, jct_ns: int | None, jct_note: str) -> dict[str, Any]:
    """A plan with all its operations, links and flows.

    Args:
        jct_ns: lower bound of an iteration; None if unknown.
        jct_note: what the bound is made of.
    """
    return {
        "topology": {"name": plan.topology.name, "source": plan.topology.source, "hosts": len(plan.topology.hosts)},
        "ranks": plan.topology.ranks,
        "storage_endpoints": plan.topology.storage_endpoints,
        "overhead": {
            "payload_bytes": plan.overhead.payload_bytes,
            "wire_bytes": plan.overhead.wire_bytes,
            "factor": float(plan.overhead.factor),
        },
        "seed": plan.seed,
        "hash": plan.hash_name,
        "entropy_values": plan.entropy_values,
        "observed_difference": observed_difference(plan),
        "network_bytes": plan.network_bytes,
        "local_bytes": plan.local_bytes,
        "domain_bytes": plan.domain_bytes,
        "jct_ns": jct_ns,
        "jct": jct_note,
        "operations": [row_to_json(OPERATION_COLUMNS, operation) for operation in plan.operations],
        "tiers": [dataclasses.asdict(tier) | row_to_json(TIER_COLUMNS, tier) for tier in tiers(plan)],
        "equal_cost": [dataclasses.asdict(choice) | row_to_json(CHOICE_COLUMNS, choice) for choice in equal_cost(plan)],
        "oversubscription": [dataclasses.asdict(one) | {"ratio": one.ratio} for one in oversubscription(plan.paths)],
        **_links_json(plan),
        "flows": None if plan.flows is None else [flow._asdict() for flow in plan.flows],
    }


def _links_json(plan: Plan) -> dict[str, Any]:
    """Loads by directed link; the ports of hosts are the links from and to hosts."""
    loads = plan.loads
    order = np.argsort(-np.maximum(loads.even, loads.hashed), kind="stable")[:LISTED_LINKS]
    chosen = np.sort(order).tolist()
    links = [
        {
            "link": plan.paths.link_name(link),
            "rate_bps": None if np.isnan(loads.rate_bps[link]) else int(loads.rate_bps[link]),
            "even_bytes": float(loads.even[link]),
            "hashed_bytes": float(loads.hashed[link]),
            "flows": int(loads.flows[link]),
        }
        for link in chosen
    ]
    return {"links": links, "links_left_out": len(loads.even) - len(links)}


def flows_to_json(loads: Sequence[FlowLoad]) -> list[dict[str, Any]]:
    """A document for each direction of each flow."""
    return [
        {
            "flow": load.number,
            "kind": load.kind,
            "from": str(load.sender),
            "to": str(load.receiver),
            "payload_bytes": load.payload_bytes,
            "about": load.about,
        }
        for load in loads
    ]


def flow_links_to_json(links: Sequence[LinkLoad], paths: Paths) -> list[dict[str, Any]]:
    """A document for each directed link that they cross."""
    return [
        {
            "link": paths.link_name(one.link),
            "rate_bps": paths.network.links[one.link >> 1].rate_bps,
            "payload_bytes": one.payload_bytes,
            "unlimited_flows": one.unlimited,
        }
        for one in links
    ]


def trace_to_json(summary: Summary) -> dict[str, Any]:
    """Every field of the summary, with its unit in its key."""
    content = dataclasses.asdict(summary)
    content["groups"] = [{"name": group.name, "ranks": list(group.ranks)} for group in summary.groups]
    return content


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


def interference_to_json(found: Interference) -> dict[str, Any]:
    """Factors of every job and class; times in ns."""
    return {
        "sessions": found.sessions,
        "interval_units": "stretches of iterations" if found.sessions == 1 else "runs",
        "fairness": found.fairness,
        "fairness_of": "1 / interference factor of the JCT of each job",
        "jobs": [_job(one) for one in found.jobs],
    }


def _job(one: JobInterference) -> dict[str, Any]:
    counted = {"iterations": one.covered, "iterations_left_out": one.left_out, "played_alone": one.has_solo}
    return (
        {"job": one.name}
        | counted
        | {"classes": [row_to_json(INTERFERENCE_COLUMNS, (one.name, each)) for each in one.classes]}
    )


def verdict_to_json(verdict: Verdict) -> dict[str, Any]:
    """Outcome (null without rules), one line of text, and every check with its value in the unit of its metric."""
    return {
        "outcome": None if verdict.rules is None else verdict.outcome.value,
        "text": headline(verdict),
        "rules": verdict.rules,
        "is_example": verdict.is_example,
        "tester": {
            "calibrated": verdict.tester.is_calibrated,
            "expired": verdict.tester.expired,
            "problems": list(verdict.tester.problems),
        },
        "checks": [row_to_json(VERDICT_COLUMNS, one) for one in verdict.findings],
    }


def summary_to_json(summary: RunSummary) -> dict[str, Any]:
    """The summary of a run: units in the key names, unrounded, null for an unknown value."""
    document = dataclasses.asdict(dataclasses.replace(summary, flows=None))
    del document["flows"]  # there can be a million: they are in flows.parquet
    scaling = document.pop("scaling")
    document["scaling"] = {"bytes_factor": scaling["bytes"], **{k: v for k, v in scaling.items() if k != "bytes"}}
    for name, columns in (
        ("classes", CLASS_COLUMNS),
        ("worst_flows", WORST_FLOW_COLUMNS),
        ("events", EVENT_COLUMNS),
    ):
        for row, one in zip(document[name], getattr(summary, name), strict=True):
            row |= row_to_json(columns, one)
    for row in document["classes"]:
        if row["network"] is not None:  # its budgets are those of the class, and what the verdict needs
            for part in (row["network"], row["network"]["at_best"], row["network"]["perfect"]):
                if part is not None:
                    del part["uncertainty"]
    for row, frames in zip(document["totals"]["device_frames"], summary.totals.device_frames, strict=True):
        row |= {"lost": frames.lost, "unexplained": frames.unexplained}
    document["totals"]["lost"] = summary.totals.lost
    if summary.iteration is not None:
        document["iteration"] |= {
            "exposed_ns": summary.iteration.exposed_ns,
            "exposed_fraction": summary.iteration.exposed_fraction,
            "overlap_fraction": summary.iteration.overlap_fraction,
        }
    if summary.imported is not None:
        document["imported"] |= {fate: summary.imported.number(fate) for fate in (GUESSED, DROPPED)}
    return document


def sweep_to_json(table: SweepTable) -> dict[str, Any]:
    """The sweep as a JSON document, including the statistics that the printed table omits; unknown values are null.

    Keys that end in _us and _gbps (1e9 bytes per second) are those of version 0.1; the next version drops them.
    """
    mean = table.mean_busbw_bytes_per_s
    return {
        "collective": table.label,
        "ranks": table.ranks,
        "root": table.root,
        "rows": [dataclasses.asdict(row) | row_to_json(SWEEP_COLUMNS, row) for row in table.rows],
        "mean_busbw_bytes_per_s": mean,
        "mean_busbw_gbps": None if mean is None else mean / 1e9,
        "counters": dict(table.counters),
        "paths": [dataclasses.asdict(one) for one in table.paths],
        "dut": dict(table.dut),
        "warnings": dict(table.warnings),
        "worst_steps": [dataclasses.asdict(one) for one in table.worst_steps],
        "units": {
            "time": "as the key says (_ns; _us in those of version 0.1), mean of cct over iterations",
            "bandwidth": "as the key says (_bytes_per_s); 1e9 bytes per second in _gbps, those of version 0.1",
        },
    }


def runs_to_json(runs: Sequence[StoredRun]) -> list[dict[str, Any]]:
    """A document per run: its folder and status, and what its manifest has if it can be read."""
    return [_run_to_json(run) for run in runs]


def _run_to_json(run: StoredRun) -> dict[str, Any]:
    document: dict[str, Any] = {"folder": str(run.folder), "status": run.status, "problem": run.problem}
    manifest = run.manifest
    if manifest is None:
        return document
    return document | {
        "run_id": manifest.run_id,
        "created": manifest.created,
        "trace": dataclasses.asdict(manifest.trace),
        "transport": transport_of(manifest),
        "dut": dict(manifest.dut),
        "firmware": firmware_of(manifest),
        **result_to_json(manifest),
        "trials": None if manifest.status == RUNNING else dataclasses.asdict(manifest.trials),
    }


def result_to_json(manifest: Manifest) -> dict[str, Any]:
    """What lists show of a run: verdict, median JCT (ns), lost, profile, topology; null for what is not known."""
    return row_to_json(RESULT_COLUMNS, result_of(manifest))


def statistics_to_json(found: Sequence[Distribution], late: Sequence[Lateness], *, incomplete: int) -> dict[str, Any]:
    """Percentiles of every class, and who was last; units in the keys, null for an unknown value."""
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
