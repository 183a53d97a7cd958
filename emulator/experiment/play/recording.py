"""A run folder while its run is played: rows as they come, counters at the end, and the measured trace."""

from __future__ import annotations

import math
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from emulator.control.observations import FlowCounters, join_ends
from emulator.controller.assignment import Assignment
from emulator.controller.recording.late_posts import add_remaining_ideals
from emulator.controller.recording.measured_trace import write_measured_trace
from emulator.controller.recording.recorder import Recorder, WorstInstances
from emulator.controller.recording.session_observer import DutCounters
from emulator.controller.recording.step_facts import settle_stamps
from emulator.controller.recording.timeline_rows import timeline_rows
from emulator.controller.run_plan import RunOutcome
from emulator.errors import InputError
from emulator.experiment.play.manifest import concluded_manifest, opening_manifest
from emulator.experiment.settle.flows import result_rows
from emulator.experiment.settle.settled import Settled
from emulator.planner.network.ideal_times import UNKNOWN_NS
from emulator.planner.rank_program import WORST_STEPS
from emulator.results.run_folder.catalogue import NodeCatalogue
from emulator.results.run_folder.manifest import RunFigures
from emulator.results.run_folder.observer import RunObserver, WritingTrace
from emulator.results.run_folder.reader import Run
from emulator.results.run_folder.schema import RunTable
from emulator.results.run_folder.writer import RunWriter
from emulator.results.verdict.rules import RULES_FILE, rules_file
from emulator.results.verdict.session import judge_run
from emulator.trace.meaning.model import Communication, IntArray
from emulator.units import BITS_PER_BYTE, NS_PER_S

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

    def end(self, outcome: RunOutcome, *, dut: Mapping[str, Any]) -> None:
        """Write what is known only when nobody plays any more.

        Args:
            outcome: of the session.
            dut: facts about the device under test.

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
        if rows := result_rows(settled.flows, outcome.flow_reports):
            writer.add(RunTable.FLOW_RESULTS, rows)
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
