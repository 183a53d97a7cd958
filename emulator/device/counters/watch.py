"""The device under test during a run: its counters, its profile, and the entries of both in the manifest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from emulator.device.counters.counters import PERIOD_S, CounterSource, Sampler
from emulator.device.counters.namespaces import NamespaceCounters
from emulator.device.counters.profile_counters import counters_of
from emulator.device.lab.model import Design
from emulator.device.lab.state import LabState, LabStore
from emulator.device.profile.applying import AppliedProfile
from emulator.device.profile.changes import Change, plan_changes
from emulator.device.profile.profile import Profile
from emulator.device.profile.scenario import Scenario, Timing
from emulator.planner.network.header_overhead import DEFAULT_MTU, ETHERNET_BYTES
from emulator.results.run_folder.schema import Columns
from emulator.topology.model import Topology
from emulator.units import NS_PER_S


class DutWatch:
    """A context manager around a run, which implements DutCounters; leaving it restores the device.

    Args:
        sources: of counters, in addition to those of the lab.
        topology: of the run; names the switches under test.
        lab: in which the run is played; None on hardware.
        profile: applied to the lab during the run; None for a clean device.
        frame_bytes: length on the wire of a full frame of the run.
        store: where labs keep their state.
        period_s: time between readings of the counters, s.

    Raises:
        TopologyError: the profile does not fit the lab.
    """

    def __init__(
        self,
        sources: Sequence[CounterSource],
        *,
        topology: Topology,
        lab: LabState | None = None,
        profile: Profile | None = None,
        frame_bytes: int = DEFAULT_MTU + ETHERNET_BYTES,
        store: LabStore | None = None,
        period_s: float = PERIOD_S,
    ) -> None:
        self._period_s = period_s
        self._lab, self._profile = lab, profile
        self._folder = (store or LabStore()).folder(lab.lab_id) if lab is not None else None
        self._changes: list[Change] = []
        if profile is not None and lab is not None:
            tested = _tested(topology, lab.design)
            self._changes = plan_changes(profile, lab.design, tested, frame_bytes=frame_bytes)
        own = [NamespaceCounters(lab.design.nodes, counters_of(self._changes))] if lab is not None else []
        self._sampler = Sampler([*own, *sources], period_s=period_s) if own or sources else None
        self._scenario: Scenario | None = None
        self._stack = ExitStack()
        self._is_failure_reported = False

    def __enter__(self) -> DutWatch:
        """Apply the profile, and take the first reading.

        Raises:
            HostError: the host lacks a tool, module or privilege that the profile or the counters need.
            PlanError: a profile of another run is in force in this lab.
        """
        with ExitStack() as stack:
            if self._lab is not None and self._folder is not None:
                name = self._profile.name if self._profile else ""
                applied = AppliedProfile(name, self._changes, design=self._lab.design, folder=self._folder)
                self._scenario = Scenario(stack.enter_context(applied), self._changes)
                stack.callback(self._scenario.end)
                self._scenario.prepare()
            if self._sampler is not None:
                stack.callback(self._sampler.stop)
                self._sampler.start()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stack.close()

    def begin(self) -> None:
        """See DutCounters."""
        if self._scenario is not None:
            self._scenario.begin()

    def counters(self) -> Columns | None:
        """See DutCounters."""
        failure = self._scenario.failure if self._scenario is not None else None
        if failure is not None and not self._is_failure_reported:
            self._is_failure_reported = True
            raise failure
        return self._sampler.take() if self._sampler is not None else None

    def end(self) -> None:
        """The run has ended, successfully or not: read the counters a last time; idempotent."""
        self._is_failure_reported = True  # facts() reports it
        if self._scenario is not None:
            self._scenario.end()
        if self._sampler is not None:
            self._sampler.stop()

    def facts(self) -> Mapping[str, Any]:
        """For the manifest: the profile with the times of its rules, and how counters were read."""
        facts: dict[str, Any] = {}
        if self._sampler is not None:
            facts["counters"] = {"period_s": self._period_s, "problems": list(self._sampler.problems)}
        if self._profile is not None and self._scenario is not None:
            facts["profile"] = describe_profile(self._profile, self._scenario)
        return facts


def describe_profile(profile: Profile, scenario: Scenario) -> Mapping[str, Any]:
    """The entry of a profile in the manifest: its rules, their commands, and times in s since the first iteration."""
    failure = scenario.failure
    return {
        "name": profile.name,
        "digest": profile.digest,
        "path": str(profile.path),
        "description": profile.description,
        "begun_ns": scenario.begun_ns,
        "failure": None if failure is None else str(failure),
        "rules": [_describe(timing, scenario.begun_ns) for timing in scenario.timings],
    }


def _describe(timing: Timing, begun_ns: int | None) -> Mapping[str, Any]:
    change, rule = timing.change, timing.change.rule
    return {
        "name": rule.name,
        "action": str(rule.action),
        "at": change.node.name,
        "kind": change.node.kind,
        "ports": [port.name for port in change.ports],
        "commands": [line for batch in change.start for line in batch.lines],
        "start_s": rule.start_s,
        "end_s": rule.end_s,
        "started_s": _seconds_since(begun_ns, timing.started_ns),
        "ended_s": _seconds_since(begun_ns, timing.ended_ns),
    }


def _seconds_since(begun_ns: int | None, at_ns: int | None) -> float | None:
    return None if begun_ns is None or at_ns is None else round((at_ns - begun_ns) / NS_PER_S, 6)


def _tested(topology: Topology, design: Design) -> list[str]:
    """The switches under test: those that `dut` in the topology names, else all."""
    switches = [node.name for node in design.nodes if not node.is_host]
    named = [name for name in (topology.dut.nodes if topology.dut else ()) if name in switches]
    return named or switches
