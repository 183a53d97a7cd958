"""The summary of a run: its classes, its iterations, totals, and the state of the tester."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from emulator.plugins import PluginKind, load
from emulator.results.run_folder.flow_results import FlowResult
from emulator.results.run_folder.manifest import LAST_ARRIVAL, CctEnd, HostFacts, Manifest, Scaling, Trials
from emulator.results.run_folder.reader import Run
from emulator.results.run_folder.schema import RunTable
from emulator.results.statistics.calibration import expired
from emulator.results.statistics.class_summary import ClassSummary, bandwidth, summarise_classes
from emulator.results.statistics.events import EventFigures, Migrations
from emulator.results.statistics.method.descriptive import median, percentile
from emulator.results.statistics.port_rates import PortRates
from emulator.results.statistics.samples.collectives import MERGE_COLUMNS, MergedSamples, merge
from emulator.results.statistics.samples.iterations import (
    IterationSummary,
    MeasuredIteration,
    iteration_durations,
    measured_iterations,
    summarise_iterations,
)
from emulator.results.statistics.samples.measured_rows import labels_and_codes, moved_bytes, read_measured, to_ints
from emulator.results.statistics.samples.transfers import (
    NO_TRANSFERS,
    TransferSummary,
    other_payload,
    summarise_transfers,
)
from emulator.results.statistics.tester_model import SLOWEST_TESTER, InstanceLayouts, TesterModel, TesterShare
from emulator.results.statistics.traffic.background import BackgroundFlow, background_flows, flow_results
from emulator.results.statistics.traffic.dut_counters import (
    DeviceFrames,
    device_frames,
    dropped_frames,
    run_warnings,
    sum_dut_counters,
)
from emulator.results.statistics.traffic.flow_counters import (
    domain_share,
    lost_packets,
    receiver_drops,
    sum_flow_counters,
    told_apart,
    unexplained,
    wire_flows,
)
from emulator.results.statistics.traffic.flow_figures import RunFlows, flow_figures
from emulator.results.statistics.traffic.network_traffic import (
    NetworkTraffic,
    PathCounts,
    crosses_ports,
    hosts_of_ranks,
    network_traffic,
    path_counts,
)
from emulator.results.statistics.uncertainty import Sources, repeat_of
from emulator.results.statistics.worst.worst_flows import LossFocus, WorstFlow, loss_foci, worst_flows
from emulator.results.statistics.worst.worst_steps import WorstStep, worst_steps_of
from emulator.trace.meaning.imported import ImportFacts
from emulator.trace.meaning.model import CommKind

WORST_FLOWS = 20
MANY_RANKS = 64
_ARE_SENT = ("sent", "read", "served")
"""Directions of flows alongside the job that cost the tester throughput."""


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over the measured iterations; counters cover the whole run.

    Attributes:
        samples: rows of the samples table.
        payload_bytes: sent per iteration, each byte once.
        payload_bytes_per_s: payload_bytes over the median JCT.
        network: what of it crossed the network; None if that is not known.
        domain_bytes: what of it went through scale-up domains.
        early: samples of collectives whose payload arrived before their rank had posted.
        negative: measurements left out because their time is below zero.
        incomplete: measurements left out because a member did not report.
        counters: of all flows, see flow_counters.py; a counter that the transport does not have is absent.
        dut: frames that the device under test dropped and marked, see dut_counters.py; empty if it reports none.
        device_frames: what went through each node of the device under test; empty if it does not count frames.
        is_dut_monitored: whether counters of the device were read, so that an absent one is 0.
        receiver_drops: receptions that the kernel of a receiving host dropped; None if no transport counts them.
        lost_packets: packets that no receiver reported, see `lost_packets`; None if it is not known.
        unexplained_retransmissions: lost packets beyond what the device lost or a receiving host dropped; None if flows
            alongside the job crossed the device too: what it dropped may be theirs.
        paths: of sprayed flows; empty if every flow has one path.
    """

    samples: int
    payload_bytes: int
    payload_bytes_per_s: float | None
    early: int
    negative: int
    incomplete: int
    counters: Mapping[str, int]
    network: NetworkTraffic | None = None
    domain_bytes: int = 0
    dut: Mapping[str, int] = field(default_factory=dict)
    device_frames: tuple[DeviceFrames, ...] = ()
    is_dut_monitored: bool = False
    receiver_drops: int | None = None
    lost_packets: int | None = None
    unexplained_retransmissions: int | None = None
    paths: tuple[PathCounts, ...] = ()

    @property
    def lost(self) -> int | None:
        """What the device lost, or else the packets that did not arrive; None if neither is known."""
        losses = (*(one.lost for one in self.device_frames), self.lost_packets)
        return max((one for one in losses if one is not None), default=None)


@dataclass(frozen=True, slots=True)
class TesterFacts:
    """State of the tester during the run; None if no agent reported it.

    Attributes:
        post_lateness_median_ns, peak_rss_bytes, steal_fraction, core_wait_fraction, late_starts: the largest of all
            agents.
        rank_rss_bytes: memory of an agent / its ranks, the largest of agents with MANY_RANKS or more; None
            without such.
        cct_until: what ends a collective; in runs before format version 2 the last acknowledgement did too.
        read_delay_median_ns, read_delay_p99_ns: between the kernel's time stamp of a packet that completed a
            communication and its handling by the agent; None without such stamps, or with too few.
        calibration_expired: see `expired`; "" if it has not, or if there is none.
    """

    observation_point: str
    clock_source: str
    clock_error_ns: int
    agents: int
    post_lateness_median_ns: int | None
    peak_rss_bytes: int | None
    steal_fraction: float | None
    core_wait_fraction: float | None = None
    late_starts: int | None = None
    rank_rss_bytes: int | None = None
    cct_until: CctEnd = LAST_ARRIVAL
    read_delay_median_ns: int | None = None
    read_delay_p99_ns: int | None = None
    calibration_expired: str = ""


@dataclass(frozen=True, slots=True)
class RunSummary:
    """Everything that the summary of a run shows.

    Attributes:
        worst_flows: at most WORST_FLOWS, see worst_flows.py.
        flow_results: tests with peers alongside the job.
        background: traffic alongside the job, see background.py.
        worst_steps: of the recorded ones, see worst_steps.py.
        iterations: those that count.
        crosses_ports: some rank is on another host than another, or the run does not say where they were.
        no_network: why no time is split into network and tester; "": some are.
        imported: what the import of the trace guessed and dropped; None: not stored with the run.
        events: what changed at the device during the run, see events.py.
        migrations: of traffic from port to port, see there.
        ports: how flows shared the rate of ports over time; empty: the run has no timeline.
        flows: of the whole run, those on the wire; None in a summary made by hand.
    """

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
    crosses_ports: bool = True
    no_network: str = ""
    imported: ImportFacts | None = None
    worst_flows: tuple[WorstFlow, ...] = ()
    loss_foci: tuple[LossFocus, ...] = ()
    transfers: TransferSummary = NO_TRANSFERS
    flow_results: tuple[FlowResult, ...] = ()
    background: tuple[BackgroundFlow, ...] = ()
    worst_steps: tuple[WorstStep, ...] = ()
    iterations: tuple[MeasuredIteration, ...] = ()
    events: tuple[EventFigures, ...] = ()
    migrations: tuple[Migrations, ...] = ()
    ports: tuple[PortRates, ...] = ()
    flows: RunFlows | None = field(default=None, compare=False, repr=False)

    @property
    def tester_ns(self) -> float | None:
        """What the tester adds to an iteration, as if no collective ran beside another; None if not known."""
        return self._tester_ns(slower=1.0)

    def _tester_ns(self, *, slower: float) -> float | None:
        """The same, where what a calibrated tester needs, rather than what was measured, is taken `slower` times."""
        shares = [(one.total_ns * (slower if one.network is None else 1.0), one.tester_percent) for one in self.classes]
        if not shares or any(percent is None for _, percent in shares):
            return None
        return sum(total_ns * (percent or 0.0) / 100 for total_ns, percent in shares)

    @property
    def perfect_iteration(self) -> Mapping[str, float]:
        """Attribute of `iteration` → what a perfect device would have shown with this tester; empty if not known.

        As if no collective ran beside another: overlapping, the tester adds less.
        """
        ideal_ns = self.iteration.ideal_ns if self.iteration else None
        added_ns = self._tester_ns(slower=SLOWEST_TESTER)
        if ideal_ns is None or added_ns is None:
            return {}
        perfect_ns = ideal_ns + added_ns
        return dict.fromkeys(("jct_ns", "jct_min_ns", "jct_max_ns"), perfect_ns) | {
            "roofline_ratio": perfect_ns / ideal_ns
        }


def summarise(run: Run) -> RunSummary:
    """Summarise a run, without warm-up and excluded iterations.

    Raises:
        ResultError: a table of the run is missing or damaged.
    """
    manifest, flows = run.manifest, told_apart(run.table(RunTable.FLOWS))
    on_the_wire = wire_flows(flows)
    samples = read_measured(
        run, RunTable.SAMPLES, [*MERGE_COLUMNS, "name", "bytes_sent", "bytes_received", "read_delay_ns"]
    )
    merged = merge(samples, hosts_of_ranks(manifest), until=manifest.cct_until)
    usage, flow_events = run.table(RunTable.ITERATIONS), run.table(RunTable.FLOW_EVENTS)
    iteration = summarise_iterations(usage, manifest)
    counters = run.table(RunTable.COUNTERS)
    model = TesterModel.from_manifest(manifest.calibration)
    beside = flow_results(run)
    sent = sum(one.bytes_per_s or 0.0 for one in beside if one.observer == "charkha" and one.direction in _ARE_SENT)
    tester = None
    if model is not None:
        layouts, share = InstanceLayouts(samples, manifest.topology), domain_share(flows)
        tester = TesterShare.of(model, samples, merged, layouts=layouts, domain_share=share, beside_bytes_per_s=sent)
    totals, sources = _totals(run, flows, samples, merged, iteration), Sources.of(manifest)
    classes = summarise_classes(
        merged,
        scaled_by=manifest.scaling.bytes,
        tester=tester,
        others=other_payload(samples, merged, manifest.topology),
        lost=totals.lost or 0,
        sources=sources,
    )
    if any(one.network is not None for one in classes):
        sources = sources.stamped()
    return RunSummary(
        run_id=manifest.run_id,
        status=manifest.status,
        reason=manifest.reason,
        trace=manifest.trace.path,
        ranks=manifest.trace.ranks,
        scaling=manifest.scaling,
        trials=manifest.trials,
        classes=classes,
        crosses_ports=crosses_ports(manifest),
        no_network=_no_network(manifest, classes),
        iteration=_with_uncertainty(iteration, iteration_durations(usage, manifest), sources),
        totals=totals,
        tester=_tester_facts(manifest, samples),
        warnings=run_warnings(manifest),
        imported=manifest.trace.imported,
        worst_flows=worst_flows(on_the_wire, counters, manifest, most=WORST_FLOWS, flow_events=flow_events),
        loss_foci=loss_foci(on_the_wire, counters, manifest),
        transfers=summarise_transfers(samples, merged),
        flow_results=tuple(one for one in beside if one.kind != "background"),
        background=tuple(background_flows(beside)),
        worst_steps=worst_steps_of(run),
        iterations=measured_iterations(usage, flow_events, sum_flow_counters(flows), manifest),
        events=_figures(run, RunTable.EVENTS, "name", "event_figures"),
        migrations=_figures(run, RunTable.EVENTS, "name", "migrations"),
        ports=_figures(run, RunTable.TIMELINE, "bytes", "port_rates"),
        flows=flow_figures(on_the_wire, usage, manifest),
    )


def _figures(run: Run, part: RunTable, column: str, hook: str) -> tuple[Any, ...]:
    """What an annex makes of a table that few runs have."""
    if not run.table(part, [column]).num_rows:
        return ()
    found: tuple[Any, ...] = load(PluginKind.HOOKS, hook)(run)
    return found


def _with_uncertainty(
    found: IterationSummary | None, durations: Mapping[int, int], sources: Sources
) -> IterationSummary | None:
    if found is None:
        return None
    numbers, jct_ns = np.array(list(durations.items()), np.int64).T
    repeat = repeat_of(jct_ns, numbers)
    figures = {name: getattr(found, name) for name in ("jct_ns", "roofline_ratio")}
    return replace(found, uncertainty=sources.budgets(figures, found.jct_ns, by_time=repeat, by_rate=repeat))


def _no_network(manifest: Manifest, classes: Sequence[ClassSummary]) -> str:
    if any(one.network is not None for one in classes):
        return ""
    transport, split = manifest.parameters.get("transport"), manifest.parameters.get("roce.split")
    if transport is not None and transport.value != "roce":
        return "only over RoCE do messages have time stamps"
    if split is None:
        return "the run has no time stamps of messages"
    if len(set(hosts_of_ranks(manifest))) < 2:
        return "no port is crossed"
    if split.value != "on":
        return "split is off"
    return "time stamps of messages are missing"


def _totals(
    run: Run, flows: pa.Table, samples: pa.Table, merged: MergedSamples, iteration: IterationSummary | None
) -> Totals:
    iterations = len(np.unique(to_ints(samples["iteration"])))
    payload = int(moved_bytes(samples).sum()) // max(iterations, 1)
    readings = run.table(RunTable.COUNTERS)
    jct_ns = iteration.jct_ns if iteration else None
    dut, counters = sum_dut_counters(readings, run.manifest), sum_flow_counters(flows)
    is_monitored, drops = readings.num_rows > 0, receiver_drops(run.manifest)
    lost = lost_packets(counters, run.manifest)
    frames = device_frames(readings, run.manifest)
    dropped = dropped_frames(dut)
    device = max(dropped, *(0, *(one.lost or 0 for one in frames))) if is_monitored else None
    is_shared = run.table(RunTable.FLOW_RESULTS, ["flow"]).num_rows > 0
    return Totals(
        samples=samples.num_rows,
        payload_bytes=payload,
        payload_bytes_per_s=bandwidth(payload, jct_ns),
        network=network_traffic(flows, run.manifest, payload_bytes=payload, jct_ns=jct_ns),
        domain_bytes=round(domain_share(flows) * payload),
        early=_count_early(samples),
        negative=int(np.count_nonzero(merged.cct_ns < 0)),
        incomplete=merged.incomplete,
        counters=counters,
        dut=dut,
        device_frames=frames,
        is_dut_monitored=is_monitored,
        receiver_drops=drops,
        lost_packets=lost,
        unexplained_retransmissions=None if is_shared else unexplained(lost, counters, device=device, receivers=drops),
        paths=path_counts(run.manifest),
    )


def _count_early(samples: pa.Table) -> int:
    """Only collectives: a send does not wait until the receive is posted."""
    labels, codes = labels_and_codes(samples["kind"])
    paired = [labels.index(kind.label) for kind in (CommKind.SEND, CommKind.RECV) if kind.label in labels]
    return int(np.count_nonzero((to_ints(samples["early"]) == 1) & ~np.isin(codes, paired)))


def _tester_facts(manifest: Manifest, samples: pa.Table) -> TesterFacts:
    delays = samples["read_delay_ns"].drop_null().to_numpy()
    return TesterFacts(
        observation_point=manifest.observation_point,
        cct_until=manifest.cct_until,
        clock_source=manifest.clock.source,
        clock_error_ns=manifest.clock.error_ns,
        agents=len(manifest.hosts),
        post_lateness_median_ns=_largest([host.post_lateness_median_ns for host in manifest.hosts]),
        peak_rss_bytes=_largest([host.peak_rss_bytes for host in manifest.hosts]),
        steal_fraction=_largest([host.steal_fraction for host in manifest.hosts]),
        core_wait_fraction=_largest([host.core_wait_fraction for host in manifest.hosts]),
        late_starts=_largest([host.late_starts for host in manifest.hosts]),
        rank_rss_bytes=_largest([_rank_rss_bytes(host) for host in manifest.hosts]),
        read_delay_median_ns=_whole(median(delays)),
        read_delay_p99_ns=_whole(percentile(delays, 0.99)),
        calibration_expired=expired(manifest.calibration, manifest.created),
    )


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)


def _rank_rss_bytes(host: HostFacts) -> int | None:
    return None if host.peak_rss_bytes is None or host.ranks < MANY_RANKS else host.peak_rss_bytes // host.ranks


def _largest(values: list[Any]) -> Any:
    return max((value for value in values if value is not None), default=None)
