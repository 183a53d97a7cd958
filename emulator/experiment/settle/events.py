"""The profile and the events of a run spec as the schedule of the device under test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from emulator.device.counters.watch import tested_switches
from emulator.device.lab.design import make_design
from emulator.device.profile.changes import plan_changes, plan_commands
from emulator.device.profile.load import find_profile, load_profile, parse_port_rate
from emulator.device.profile.profile import (
    Action,
    Command,
    Moment,
    PlannedEvent,
    PortDown,
    Profile,
    ProfileRule,
    Schedule,
    Shape,
)
from emulator.errors import EventError, InputError, PlanError
from emulator.experiment.spec.event_spec import Event
from emulator.experiment.spec.spec import Device
from emulator.topology.model import Topology
from emulator.topology.network import End
from emulator.units import NS_PER_S


def schedule_of(device: Device, events: Sequence[Event], *, iterations: int | None) -> Schedule:
    """The schedule, whatever switches there are.

    Args:
        device: its profile.
        events: of the run spec.
        iterations: how many measured ones the first job plays; None: nobody knows.

    Raises:
        InputError: a profile does not exist or is not valid, or an event is after the last iteration.
    """
    profile = None if device.profile is None else load_profile(find_profile(device.profile))
    return Schedule(profile, [_planned(one, number, iterations) for number, one in enumerate(events)])


def refuse_commands(events: Sequence[Event]) -> None:
    """Refuse events that run commands on this host: a run spec can come from anywhere.

    Raises:
        EventError: there is one.
    """
    for number, one in enumerate(events):
        if one.do is not None:
            how = "read the run spec, then give `charkha run` the option --allow-commands"
            raise EventError(f"runs a command on this host, which nobody allowed: {how}", number, "do")


def require_lab(device: Device, events: Sequence[Event], topology: Topology) -> None:
    """Refuse a profile and events where no switch can carry them out; commands need none.

    Raises:
        PlanError: there is one.
    """
    if device.profile is not None or any(one.do is None for one in events):
        what = "a profile needs" if device.profile is not None else "events need"
        source = topology.source or "TOPOLOGY"
        problem = f"{what} a lab, but this run is not in one"
        raise PlanError(f"{problem}: `charkha lab up {source}`, then run with --topology {source}")


def check_schedule(schedule: Schedule, topology: Topology, *, frame_bytes: int) -> None:
    """Refuse a schedule that a lab of this topology, or this host, could not carry out.

    Raises:
        InputError: it could not, or the topology cannot be a lab.
    """
    if len(plan_commands(schedule)) == len(schedule.rules):
        return
    design = make_design(topology, "plan")
    plan_changes(schedule, design, tested_switches(topology, design), frame_bytes=frame_bytes)


def describe_schedule(schedule: Schedule) -> list[PlannedChange]:
    """What begins or ends during the run, in the order of the rules."""
    return [
        PlannedChange(
            rule.name,
            "the start" if rule.start is None else str(rule.start),
            _end(rule),
            ", ".join(map(str, rule.ports)) or _everywhere(rule.action),
            str(rule.action),
        )
        for rule in schedule.rules
        if rule.is_event
    ]


def _end(rule: ProfileRule) -> str:
    if isinstance(rule.action, Command) and rule.start is not None:
        return f"at most {replace(rule.start, after_s=rule.start.after_s + rule.action.limit_s)}"
    return "the end" if rule.end is None else str(rule.end)


def _everywhere(action: Action) -> str:
    return "this host" if isinstance(action, Command) else "every switch under test"


class PlannedChange(NamedTuple):
    """A change of the device during a run: from when, until when, where, and what."""

    name: str
    begins: str
    ends: str
    where: str
    what: str


def _planned(event: Event, number: int, iterations: int | None) -> PlannedEvent:
    if event.iteration is not None and iterations is not None and event.iteration >= iterations:
        last = f"the last of {iterations:,} iterations is iteration {iterations - 1}"
        raise EventError(f"is after the end of the run: {last}", number, "at")
    start = Moment(event.after_ns / NS_PER_S, event.iteration)
    lasts_ns = event.lasts_ns
    end = None if lasts_ns is None else Moment((event.after_ns + lasts_ns) / NS_PER_S, event.iteration)
    if event.do is not None:
        return PlannedEvent(start, None, action=Command(event.do, event.limit_s))
    if event.profile is not None:
        return PlannedEvent(start, end, profile=_profile(event.profile, number))
    node, _, port = str(event.port).rpartition(":")
    action = PortDown() if event.shape is None else Shape(parse_port_rate(event.shape))
    return PlannedEvent(start, end, End(node, port), action)


def _profile(name: str, number: int) -> Profile:
    try:
        return load_profile(find_profile(name))
    except InputError as error:
        raise EventError(str(error), number, "profile") from error
