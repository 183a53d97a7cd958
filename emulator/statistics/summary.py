"""The summary of a run: its classes, its iterations, totals, and the state of the tester."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from emulator.run_folder.manifest import Manifest, Scaling, Trials
from emulator.run_folder.reader import Run
from emulator.run_folder.schema import Part
from emulator.statistics.class_summary import ClassSummary, bandwidth, summarise_classes
from emulator.statistics.collectives import MERGE_COLUMNS, MergedSamples, merge
from emulator.statistics.dut_counters import sum_dut_counters
from emulator.statistics.flow_counters import sum_flow_counters
from emulator.statistics.iterations import IterationSummary, summarise_iterations
from emulator.statistics.measured_rows import read_measured
from emulator.statistics.table_columns import labels_and_codes, to_ints
from emulator.statistics.tester_model import TesterModel, TesterShare
from emulator.trace.model import CommKind


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over the measured iterations; counters cover the whole run.

    Attributes:
        samples: rows of the samples table.
        payload_bytes: sent per iteration, each byte once.
        payload_bytes_per_s: payload_bytes over the median JCT.
        early: samples of collectives whose payload arrived before their rank had posted.
        negative: measurements left out because their time is below zero.
        incomplete: measurements left out because a member did not report.
        counters: of all flows, see flow_counters.py; a counter that the transport does not have is absent.
        dut: frames that the device under test dropped and marked, see dut_counters.py; empty if it reports none.
    """

    samples: int
    payload_bytes: int
    payload_bytes_per_s: float | None
    early: int
    negative: int
    incomplete: int
    counters: Mapping[str, int]
    dut: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TesterFacts:
    """State of the tester during the run; None if no agent reported it.

    Attributes:
        post_lateness_median_ns, peak_rss_bytes, steal_fraction: the largest of all agents.
    """

    observation_point: str
    clock_source: str
    clock_error_ns: int
    agents: int
    post_lateness_median_ns: int | None
    peak_rss_bytes: int | None
    steal_fraction: float | None


@dataclass(frozen=True, slots=True)
class RunSummary:
    """Everything that the summary of a run shows."""

    run_id: str
    status: str
    reason: str | None
    trace: str
    ranks: int
    scaling: Scaling
    trials: Trials
    classes: tuple[ClassSummary, ...]
    iteration: IterationSummary | None
    totals: Totals
    tester: TesterFacts
    warnings: Mapping[str, int]


def summarise(run: Run) -> RunSummary:
    """Summarise a run, without warm-up and excluded iterations.

    Raises:
        ResultError: a table of the run is missing or damaged.
    """
    manifest = run.manifest
    samples = read_measured(run, Part.SAMPLES, [*MERGE_COLUMNS, "bytes_sent"])
    merged = merge(samples)
    iteration = summarise_iterations(read_measured(run, Part.ITERATIONS), manifest)
    model = TesterModel.from_manifest(manifest.calibration)
    tester = None if model is None else TesterShare.of(model, samples, merged)
    return RunSummary(
        run_id=manifest.run_id,
        status=manifest.status,
        reason=manifest.reason,
        trace=manifest.trace.path,
        ranks=manifest.trace.ranks,
        scaling=manifest.scaling,
        trials=manifest.trials,
        classes=summarise_classes(merged, scaled_by=manifest.scaling.bytes, tester=tester),
        iteration=iteration,
        totals=_totals(run, samples, merged, iteration),
        tester=_tester_facts(manifest),
        warnings=manifest.warnings,
    )


def _totals(run: Run, samples: pa.Table, merged: MergedSamples, iteration: IterationSummary | None) -> Totals:
    iterations = len(np.unique(to_ints(samples["iteration"])))
    payload = int(to_ints(samples["bytes_sent"]).sum()) // max(iterations, 1)
    return Totals(
        samples=samples.num_rows,
        payload_bytes=payload,
        payload_bytes_per_s=bandwidth(payload, iteration.jct_ns) if iteration else None,
        early=_count_early(samples),
        negative=int(np.count_nonzero(merged.cct_ns < 0)),
        incomplete=merged.incomplete,
        counters=sum_flow_counters(run.table(Part.FLOWS)),
        dut=sum_dut_counters(run.table(Part.COUNTERS), run.manifest),
    )


def _count_early(samples: pa.Table) -> int:
    """Only collectives: a send does not wait until the receive is posted."""
    labels, codes = labels_and_codes(samples["kind"])
    paired = [labels.index(kind.label) for kind in (CommKind.SEND, CommKind.RECV) if kind.label in labels]
    return int(np.count_nonzero((to_ints(samples["early"]) == 1) & ~np.isin(codes, paired)))


def _tester_facts(manifest: Manifest) -> TesterFacts:
    return TesterFacts(
        observation_point=manifest.observation_point,
        clock_source=manifest.clock.source,
        clock_error_ns=manifest.clock.error_ns,
        agents=len(manifest.hosts),
        post_lateness_median_ns=_largest([host.post_lateness_median_ns for host in manifest.hosts]),
        peak_rss_bytes=_largest([host.peak_rss_bytes for host in manifest.hosts]),
        steal_fraction=_largest([host.steal_fraction for host in manifest.hosts]),
    )


def _largest(values: list[Any]) -> Any:
    return max((value for value in values if value is not None), default=None)
