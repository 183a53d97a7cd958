"""The manifest of a run: what is known before it begins, and at its end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from emulator.control.conversation import Farewell
from emulator.control.parameter import Parameter, Setting, Source
from emulator.controller.assignment import Assignment
from emulator.controller.recording.recorder import Recorder
from emulator.controller.recording.step_facts import describe_clock
from emulator.controller.recording.topology_description import describe_dut, describe_topology
from emulator.controller.run_plan import RunOutcome
from emulator.experiment.settle.flows import flow_parameters
from emulator.experiment.settle.settled import Settled
from emulator.experiment.spec.document import with_absolute_paths
from emulator.planner.network.ideal_times import UNKNOWN_NS
from emulator.results.run_folder.manifest import (
    KERNEL_OBSERVATION_POINT,
    OBSERVATION_POINT,
    HostFacts,
    Manifest,
    Scaling,
    TraceFacts,
)
from emulator.results.statistics.method.nccl_conventions import sequential_roofline_ns
from emulator.results.statistics.tester.tester_model import host_limit_warnings
from emulator.roce.options import RoceOptions
from emulator.trace.files.load import digest

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
