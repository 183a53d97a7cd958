"""A run folder while its run is played: rows as they come, counters at the end, and the measured trace."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from emulator.control.observations import FlowCounters, join_ends
from emulator.controller.assignment import Assignment
from emulator.controller.recording.dut_monitor import DutCounters
from emulator.controller.recording.late_posts import add_remaining_ideals
from emulator.controller.recording.measured_trace import write_measured_trace
from emulator.controller.recording.recorder import Recorder
from emulator.controller.recording.timebase import settle_stamps
from emulator.controller.recording.worst_instances import WorstInstances
from emulator.controller.run_plan import RunOutcome
from emulator.errors import InputError
from emulator.experiment.play.manifest import concluded_manifest, opening_manifest
from emulator.experiment.settle.flows import result_rows
from emulator.experiment.settle.settled import Settled
from emulator.planner.network.ideal_times import UNKNOWN_NS
from emulator.planner.rank_program import WORST_STEPS
from emulator.results.run_folder.catalogue import NodeCatalogue
from emulator.results.run_folder.manifest import RunFigures
from emulator.results.run_folder.observer import RunObserver
from emulator.results.run_folder.reader import Run
from emulator.results.run_folder.writer import RunWriter
from emulator.results.statistics.summary import summarise
from emulator.results.verdict.judge import judge
from emulator.results.verdict.rules import RULES_FILE, rules_file, rules_of
from emulator.trace.meaning.model import Communication, IntArray

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
        self.recorder = Recorder(self.writer, self._catalogue(), observers, monitor, worst=self._worst)

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
        writer.add_flows(flows := _counted_flows(outcome, settled.assignment))
        writer.add_flow_results(result_rows(settled.flows, outcome.flow_reports))
        if settled.resolved.record_steps:
            self._complete_steps(flows)
        writer.manifest = concluded_manifest(writer.manifest, settled, outcome, self.recorder, dut=dut)

    def write_trace(self) -> None:
        """Write the measured trace.

        Raises:
            HostError: it cannot be written.
        """
        for observer in self._observers:
            observer.writing_trace()
        write_measured_trace(self.writer.run(), self._settled.job.loaded, self.writer.folder / MEASURED_TRACE)

    def _complete_steps(self, flows: Sequence[FlowCounters]) -> None:
        from emulator.controller.recording.step_facts import (  # loads scipy, which few runs need
            StepFacts,
            complete_steps,
        )

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


def _figures_of(run: Run) -> RunFigures | None:
    """What lists show of a run; None if its tables cannot be read, which every reader of them says."""
    try:
        return judge(summarise(run), rules_of(run)).figures
    except InputError:
        return None


def _counted_flows(outcome: RunOutcome, assignment: Assignment) -> list[FlowCounters]:
    """Counters of flows whose senders' agents have reported: what a lost agent sent is not known."""
    known = {rank for agent in outcome.counted for rank in assignment.ranks_of[agent]}
    return [flow for flow in join_ends(outcome.flows) if flow.src in known]
