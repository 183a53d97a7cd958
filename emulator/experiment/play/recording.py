"""A run folder while its run is played: its manifest, rows, counters at the end, and the measured trace."""

from __future__ import annotations

import math
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from emulator.control.conversation import Farewell
from emulator.control.observations import FlowCounters, join_ends
from emulator.control.parameter import Parameter, Setting, Source
from emulator.controller.assignment import Assignment
from emulator.controller.recording.farewell_rows import migration_rows, timeline_rows
from emulator.controller.recording.late_posts import add_remaining_ideals
from emulator.controller.recording.measured_trace import write_measured_trace
from emulator.controller.recording.recorder import Recorder, WorstInstances
from emulator.controller.recording.session_observer import DutCounters
from emulator.controller.recording.step_facts import describe_clock, settle_stamps
from emulator.controller.recording.topology_description import describe_dut, describe_topology
from emulator.controller.run_plan import RunOutcome
from emulator.errors import InputError
from emulator.experiment.settle.flows import flow_parameters, gap_rows, result_rows
from emulator.experiment.settle.settled import Settled
from emulator.experiment.spec.document import with_absolute_paths
from emulator.planner.network.ideal_times import UNKNOWN_NS
from emulator.planner.rank_program import WORST_STEPS
from emulator.results.run_folder.catalogue import NodeCatalogue
from emulator.results.run_folder.manifest import (
    KERNEL_OBSERVATION_POINT,
    OBSERVATION_POINT,
    HostFacts,
    Manifest,
    RunFigures,
    Scaling,
    TraceFacts,
)
from emulator.results.run_folder.observer import RunObserver, WritingTrace
from emulator.results.run_folder.reader import Run
from emulator.results.run_folder.schema import Columns, RunTable
from emulator.results.run_folder.writer import RunWriter
from emulator.results.statistics.method.nccl_conventions import sequential_roofline_ns
from emulator.results.statistics.tester_model import host_limit_warnings
from emulator.results.verdict.rules import RULES_FILE, rules_file
from emulator.results.verdict.session import judge_run
from emulator.roce.options import RoceOptions
from emulator.trace.files.load import digest
from emulator.trace.meaning.model import Communication, IntArray
from emulator.units import BITS_PER_BYTE, NS_PER_S

STEPS_MISSING = "some recorded steps are missing: the run ended early, or an agent had too many to hold"


def opening_manifest(settled: Settled, *, calibration: Mapping[str, Any]) -> Manifest:
    """What is known of a run before it begins; `calibration` is that of this host."""
    resolved, loaded, topology, identity = settled.resolved, settled.job.loaded, settled.topology, settled.identity
    known = not np.any(settled.ideal_ns == UNKNOWN_NS) and topology.rate_bps(0) is not None
    lab = settled.testbed.lab
    return Manifest(
        run_id=identity.run_id,
        created=identity.created,
        command_line=identity.command_line,
        seed=resolved.seed,
        trace=TraceFacts(
            path=str(loaded.path),
            digest=digest(loaded.files),
            ranks=len(loaded.traces),
            nodes=loaded.nodes,
            communication_nodes=sum(len(program.communications) for program in settled.workload.programs),
            imported=loaded.imported,
        ),
        topology={**describe_topology(topology), **({"lab": lab.facts()} if lab is not None else {})},
        dut=describe_dut(topology),
        parameters=_parameters(settled),
        scaling=Scaling(float(resolved.scale_bytes), _compute_label(resolved.compute_factor), resolved.element_bytes),
        roofline_ns=settled.forecast.least_ns if known else None,
        sequential_roofline_ns=sequential_roofline_ns(settled.workload, topology) if known else None,
        calibration={} if settled.assignment.remote else calibration,  # valid for this machine only
        warnings=settled.workload.warnings,
        observation_point=_observation_point(resolved.roce),
        spec=with_absolute_paths(settled.experiment).to_plain(),
        settings=tuple(resolved.settings),
    )


def concluded_manifest(
    manifest: Manifest, settled: Settled, outcome: RunOutcome, recorder: Recorder, *, dut: Mapping[str, Any]
) -> Manifest:
    """What is known of a run at its end; `dut`: facts about the device under test."""
    hosts = _host_facts(outcome, settled.assignment, settled.topology.ranks)
    trials = recorder.trials(len(settled.workload.programs))
    if settled.plan.until_others:
        manifest = _with_iterations(manifest, trials.attempted - trials.warmup)
    return replace(
        manifest,
        dut={**manifest.dut, **dut},
        hosts=tuple(hosts),
        trials=trials,
        clock=describe_clock(outcome.clocks),
        warnings={**manifest.warnings, **host_limit_warnings(hosts), **steps_warning(outcome, recorder)},
    )


def _with_iterations(manifest: Manifest, played: int) -> Manifest:
    """The manifest of a job that repeated its iterations until others had ended: so many it was."""
    asked = manifest.spec or {}
    (job,) = asked["jobs"]
    reason = "until the other jobs had ended"
    return replace(
        manifest,
        parameters={**manifest.parameters, "iterations": Parameter(played)},
        spec={**asked, "jobs": [{**job, "iterations": max(1, played)}]},
        settings=tuple(
            Setting(one.name, played, one.unit, Source.DERIVED, reason) if one.name == "iterations" else one
            for one in manifest.settings
        ),
    )


def _parameters(settled: Settled) -> Mapping[str, Parameter]:
    resolved = settled.resolved
    return (
        {
            "transport": Parameter(resolved.transport.name),
            "agents": Parameter(len(settled.assignment.ranks_of)),
            "iterations": Parameter(resolved.iterations),
            "warmup": Parameter(resolved.warmup),
            "credits": Parameter(resolved.credits),
            "message_bytes": Parameter(resolved.message_bytes, "bytes"),
            "timeout": Parameter(resolved.timeout_s, "s"),
            "window": Parameter(settled.workload.window, "nodes"),
        }
        | resolved.parameters("pace")
        | flow_parameters(settled.flows)
        | resolved.parameters("algorithm.")
        | resolved.parameters(f"{resolved.transport.name}.")
    )


def steps_warning(outcome: RunOutcome, recorder: Recorder) -> Mapping[str, int]:
    """A warning about steps that were to be recorded and are not."""
    missing = sum(one.steps_lost for one in outcome.farewells.values()) + recorder.steps_missing
    return {STEPS_MISSING: missing} if missing else {}


def _host_facts(outcome: RunOutcome, assignment: Assignment, ranks: int) -> list[HostFacts]:
    clocks, silent = outcome.clocks, Farewell((), 0, 0)
    return [
        HostFacts(
            agent=name,
            ranks=sum(rank < ranks for rank in assignment.ranks_of[name]),
            facts={"hostname": facts.hello.hostname, "pid": str(facts.hello.pid), **facts.hello.facts},
            nics=tuple(map(asdict, facts.nics)),
            transport=dict(sorted(said.transport.items())),
            clock_offset_ns=clocks[name].offset_ns if name in clocks else 0,
            clock_error_ns=clocks[name].error_ns if name in clocks else 0,
            peak_rss_bytes=said.peak_rss_bytes or None,
            post_lateness_median_ns=said.post_lateness_median_ns or None,
            steal_fraction=said.steal_fraction,
            core_wait_fraction=said.core_wait_fraction,
            late_starts=facts.late_starts,
        )
        for name, facts in sorted(outcome.agents.items())
        for said in (facts.farewell or silent,)
    ]


def _observation_point(roce: RoceOptions | None) -> str:
    has_stamps = roce is not None and roce.time_stamps == "kernel"
    return KERNEL_OBSERVATION_POINT if has_stamps else OBSERVATION_POINT


def _compute_label(factor: float) -> str:
    return {0.0: "skip", 1.0: "replay"}.get(factor, f"{factor:g}")


MEASURED_TRACE = "trace"


class RunRecording:
    """Records one run; a context manager that closes its folder.

    Args:
        settled: the run.
        folder: is created.
        observers: hear of every event.
        monitor: reads the counters of the device under test.
        calibration: of this host.
    """

    def __init__(
        self,
        settled: Settled,
        folder: Path,
        observers: Sequence[RunObserver],
        monitor: DutCounters,
        *,
        calibration: Mapping[str, Any],
    ) -> None:
        self._settled, self._observers = settled, observers
        self._worst = (
            WorstInstances(settled.topology.host_index) if settled.resolved.record_steps == WORST_STEPS else None
        )
        self.writer = RunWriter(folder, opening_manifest(settled, calibration=calibration), figures_of=_figures_of)
        self.recorder = Recorder(
            self.writer,
            self._catalogue(),
            observers,
            monitor,
            worst=self._worst,
            hosts=settled.topology.host_index,
            byte_ns=_byte_ns(settled),
        )

    def __enter__(self) -> Self:
        """Create the folder.

        Raises:
            InputError: it is not empty.
            HostError: it cannot be written.
        """
        self.writer.__enter__()
        expect = self._settled.experiment.observe.expect
        if expect is not None:
            shutil.copyfile(rules_file(expect), self.writer.folder / RULES_FILE)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.writer.__exit__(kind, error, trace)

    def end(self, outcome: RunOutcome, *, dut: Mapping[str, Any], events: Columns | None = None) -> None:
        """Write what is known only when nobody plays any more.

        Args:
            outcome: of the session.
            dut: facts about the device under test.
            events: what changed at it during the run.

        Raises:
            HostError: it cannot be written.
        """
        settled, writer = self._settled, self.writer
        self.recorder.flush()
        settle_stamps(writer, outcome, settled.assignment.ranks_of)
        add_remaining_ideals(
            writer,
            settled.workload,
            settled.topology,
            ideal_ns=settled.ideal_ns,
            algorithm_of=settled.choice.name_of,
            overhead=settled.resolved.overhead,
            seed=settled.resolved.seed,
        )
        self.recorder.network_times.write(writer, instances=max(1, settled.workload.instances))
        writer.add_flows(flows := _counted_flows(outcome, settled.assignment))
        if timeline := timeline_rows(outcome):
            writer.add(RunTable.TIMELINE, timeline)
        if events:
            writer.add(RunTable.EVENTS, events)
        if migrations := migration_rows(outcome, settled.topology):
            writer.add(RunTable.EVENTS, migrations)
        if rows := result_rows(settled.flows, outcome.flow_reports):
            writer.add(RunTable.FLOW_RESULTS, rows)
        if rows := gap_rows(settled.flows, outcome.flow_reports):
            writer.add(RunTable.FLOW_GAPS, rows)
        if settled.resolved.record_steps:
            self._complete_steps(flows)
        writer.manifest = concluded_manifest(writer.manifest, settled, outcome, self.recorder, dut=dut)

    def write_trace(self) -> None:
        """Write the measured trace.

        Raises:
            HostError: it cannot be written.
        """
        for observer in self._observers:
            observer.tell(WritingTrace())
        write_measured_trace(self.writer.run(), self._settled.job.loaded, self.writer.folder / MEASURED_TRACE)

    def _complete_steps(self, flows: Sequence[FlowCounters]) -> None:
        from emulator.controller.recording.step_facts import StepFacts, complete_steps  # few runs need it

        settled = self._settled
        facts = StepFacts(
            settled.topology,
            settled.workload,
            flows,
            algorithm_of=settled.choice.name_of,
            overhead=settled.resolved.overhead,
        )
        complete_steps(self.writer, facts, kept=None if self._worst is None else self._worst.found)

    def _catalogue(self) -> NodeCatalogue:
        settled = self._settled
        ideal_ns: IntArray | None = settled.ideal_ns if np.any(settled.ideal_ns != UNKNOWN_NS) else None
        return NodeCatalogue(settled.workload, algorithm_of=self._algorithm_name, ideal_ns=ideal_ns)

    def _algorithm_name(self, node: Communication) -> str:
        return self._settled.choice.name_of(node) if node.kind.is_collective else ""


def _byte_ns(settled: Settled) -> float:
    """What a byte of payload takes at the slowest port, headers included; infinite if a port has no rate."""
    rates = [settled.topology.rate_bps(rank) for rank in range(settled.topology.ranks)]
    slowest = min((rate for rate in rates if rate), default=0)
    if not slowest or not all(rates):
        return math.inf
    return float(settled.resolved.overhead.factor) * BITS_PER_BYTE * NS_PER_S / slowest


def _figures_of(run: Run) -> RunFigures | None:
    """What lists show of a run; None if its tables cannot be read, which every reader of them says."""
    try:
        return judge_run(run).verdict.figures
    except InputError:
        return None


def _counted_flows(outcome: RunOutcome, assignment: Assignment) -> list[FlowCounters]:
    """Counters of flows whose senders' agents have reported: what a lost agent sent is not known."""
    farewells = outcome.farewells
    known = {rank for agent in farewells for rank in assignment.ranks_of[agent]}
    flows = join_ends(flow for farewell in farewells.values() for flow in farewell.flows)
    return [flow for flow in flows if flow.src in known]
