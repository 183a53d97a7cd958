"""The device under test during a run: its counters, its profile, and the entries of both in the manifest.

Counters of a lab are those of every port in its namespace, and those of the profile. Files and sockets stay in the
namespace they were opened in: the thread enters each namespace once, and then reads all of them from its own.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from emulator.device.counters.counters import (
    PERIOD_S,
    CounterReading,
    CounterSource,
    ProfileCounter,
    Sampler,
    counters_of,
    sum_up,
)
from emulator.device.lab.commands import inside
from emulator.device.lab.link_news import LinkNews
from emulator.device.lab.model import OVS, Design, Node
from emulator.device.lab.state import LabState, LabStore
from emulator.device.lab.status import SOCKET_DROPS, drops, packet_sockets
from emulator.device.netlink import Netlink, read_objects, read_queues
from emulator.device.profile.applying import AppliedProfile, Made, Scenario, Timing
from emulator.device.profile.changes import Change, plan_changes, plan_commands
from emulator.device.profile.profile import Command, Profile, Schedule
from emulator.errors import HostError
from emulator.host.resources import exhausted
from emulator.planner.network.header_overhead import DEFAULT_MTU, ETHERNET_BYTES
from emulator.results.run_folder.schema import BEGIN, BY_COMMAND, BY_KERNEL, END, Columns
from emulator.topology.model import Topology
from emulator.units import NS_PER_S

_NET_DEV = "/proc/thread-self/net/dev"
_MOST_BYTES = 1 << 20


class NamespaceCounters:
    """Implements CounterSource for the nodes of a lab.

    Args:
        nodes: hosts and switches of the lab.
        profile: counters of the rules of the profile.
    """

    def __init__(self, nodes: Sequence[Node], profile: Sequence[ProfileCounter] = ()) -> None:
        self._nodes, self._profile = nodes, profile
        self._open: list[_OpenNode] = []
        self._stack = ExitStack()

    def open(self) -> None:
        """See CounterSource."""
        try:
            for node in self._nodes:
                counters = [one for one in self._profile if one.node == node.name]
                with inside(node.namespace):
                    self._open.append(self._stack.enter_context(_OpenNode(node, counters)))
        except (OSError, HostError) as error:
            self.close()
            raise exhausted(error) or HostError(f"the counters of the lab cannot be read: {error}") from error

    def read(self) -> list[CounterReading]:
        """See CounterSource."""
        return [reading for node in self._open for reading in node.read()]

    def read_queues(self) -> list[CounterReading]:
        """See CounterSource: of the switches."""
        return [reading for node in self._open if not node.node.is_host for reading in node.read_queues()]

    def close(self) -> None:
        """See CounterSource."""
        self._open = []
        self._stack.close()


class _OpenNode:
    """A context manager: open files and sockets of one namespace, in which the thread is on entry."""

    def __init__(self, node: Node, profile: Sequence[ProfileCounter]) -> None:
        self.node, self._profile = node, profile
        self._name = {port.device: port.name for port in node.ports}
        self._sockets: Mapping[str, socket.socket] = {}

    def __enter__(self) -> _OpenNode:
        with ExitStack() as stack:
            self._net_dev = os.open(_NET_DEV, os.O_RDONLY)
            stack.callback(os.close, self._net_dev)
            self._route = stack.enter_context(Netlink(socket.NETLINK_ROUTE))
            self._netfilter = stack.enter_context(Netlink(Netlink.NETFILTER)) if self._profile else None
            if self.node.kind == OVS:
                self._sockets = packet_sockets([self.node.namespace])
                for sock in self._sockets.values():
                    stack.enter_context(sock)
            self._index = {index: name for index, name in socket.if_nameindex() if name in self._name}
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stack.close()

    def read(self) -> Iterator[CounterReading]:
        """All counters of the node."""
        for name, counters in parse_net_dev(os.pread(self._net_dev, _MOST_BYTES, 0).decode()).items():
            if name in self._name:
                for counter, value in counters.items():
                    yield CounterReading(self.node.name, self._name[name], counter, value)
        yield from self.read_queues()

    def read_queues(self) -> Iterator[CounterReading]:
        """Those of its queues and of its profile."""
        device = self.node.name
        for index, (dropped, backlog) in read_queues(self._route).items():
            if index in self._index:
                port = self._name[self._index[index]]
                yield CounterReading(device, port, QDISC_DROPS, dropped)
                yield CounterReading(device, port, QDISC_BACKLOG, backlog)
        for name, sock in self._sockets.items():
            if name in self._name:
                yield CounterReading(device, self._name[name], SOCKET_DROPS, drops(sock))
        if self._netfilter is not None:
            yield from sum_up(device, self._profile, read_objects(self._netfilter))


QDISC_DROPS, QDISC_BACKLOG = "qdisc_drops", "qdisc_backlog_bytes"
_RX = {"rx_bytes": 0, "rx_packets": 1, "rx_errors": 2, "rx_dropped": 3}
_TX = {"tx_bytes": 8, "tx_packets": 9, "tx_errors": 10, "tx_dropped": 11}
_COLUMNS = _RX | _TX


def parse_net_dev(text: str) -> Mapping[str, Mapping[str, int]]:
    """Device → counter → value, from /proc/net/dev with its two header lines."""
    found = {}
    for line in text.splitlines()[2:]:
        device, _, numbers = line.partition(":")
        values = numbers.split()
        found[device.strip()] = {name: int(values[column]) for name, column in _COLUMNS.items()}
    return found


class DutWatch:
    """A context manager around a run, which implements DutCounters; leaving it restores the device.

    Args:
        sources: of counters, in addition to those of the lab.
        topology: of the run; names the switches under test.
        lab: in which the run is played; None on hardware.
        schedule: applied to the lab during the run; None for a clean device.
        frame_bytes: length on the wire of a full frame of the run.
        store: where labs keep their state.
        period_s: time between readings of the counters, s.

    Raises:
        InputError: the schedule does not fit the lab.
    """

    def __init__(
        self,
        sources: Sequence[CounterSource],
        *,
        topology: Topology,
        lab: LabState | None = None,
        schedule: Schedule | None = None,
        frame_bytes: int = DEFAULT_MTU + ETHERNET_BYTES,
        store: LabStore | None = None,
        period_s: float = PERIOD_S,
    ) -> None:
        self._period_s = period_s
        self._lab, self._schedule = lab, schedule or Schedule(None)
        self._folder = (store or LabStore()).folder(lab.lab_id) if lab is not None else None
        self._commands = plan_commands(self._schedule)
        self._changes: list[Change] = []
        if lab is not None:
            tested = tested_switches(topology, lab.design)
            self._changes = plan_changes(self._schedule, lab.design, tested, frame_bytes=frame_bytes)
        own = [NamespaceCounters(lab.design.nodes, counters_of(self._changes))] if lab is not None else []
        self._sampler = Sampler([*own, *sources], period_s=period_s) if own or sources else None
        self._scenario: Scenario | None = None
        heard = {
            change.node.name
            for change in self._changes
            if change.rule.is_event and (change.takes_links_down or change.changes_qdiscs)
        }
        nodes = lab.design.nodes if lab is not None else ()
        self._links = LinkNews([node for node in nodes if node.name in heard])
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
                applied = AppliedProfile(
                    self._schedule.name,
                    self._changes,
                    design=self._lab.design,
                    folder=self._folder,
                    links=self._links,
                )
                self._scenario = Scenario(stack.enter_context(applied), [*self._changes, *self._commands])
                stack.enter_context(self._links)
                stack.callback(self._scenario.end)
                self._scenario.prepare()
            elif self._commands:
                self._scenario = Scenario(None, self._commands)
                stack.callback(self._scenario.end)
            if self._sampler is not None:
                stack.callback(self._sampler.stop)
                self._sampler.start()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stack.close()

    def begin(self, iteration: int | None) -> None:
        """See DutCounters."""
        if self._scenario is not None:
            self._scenario.begin(iteration)

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
            if (queues_s := self._sampler.queues_period_s) is not None:
                facts["counters"]["queues_period_s"] = queues_s
        profile = self._schedule.profile
        if profile is not None and self._scenario is not None:
            facts["profile"] = describe_profile(profile, self._scenario)
        return facts

    def events(self) -> Columns | None:
        """What changed during the run: columns of `EVENTS_SCHEMA`; None: nothing was to change. After `end`."""
        rows = event_rows(self._scenario, self._links) if self._scenario is not None else []
        return {name: [row[name] for row in rows] for name in rows[0]} if rows else None


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
        "rules": [
            _describe(timing, scenario.begun_ns) for timing in scenario.timings if timing.change.rule in profile.rules
        ],
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
        "start_s": rule.start and rule.start.after_s,
        "end_s": rule.end and rule.end.after_s,
        "started_s": _seconds_since(begun_ns, timing.started_ns),
        "ended_s": _seconds_since(begun_ns, timing.ended_ns),
    }


def event_rows(scenario: Scenario, links: LinkNews) -> list[dict[str, Any]]:
    """A row for each beginning and each end of a change during the run, also of those that did not happen.

    A link or a queueing discipline changed before the kernel said so, and after the command for it was called: at most
    `uncertainty_ns` before `time_ns`. Other changes were made before their command returned. A router forwards again
    when it has its routes back: `routes_ns`. Nobody knows how long before it was seen a command of an event ended.
    """
    rows = []
    for timing in scenario.timings:
        rule, node = timing.change.rule, timing.change.node
        for edge, moment, made in ((BEGIN, rule.start, timing.start), (END, rule.end, timing.end)):
            is_exit = edge == END and isinstance(rule.action, Command)
            if moment is None and not is_exit:
                continue
            said_ns = routes_ns = None
            if made is not None:
                said_ns = _said_ns(timing.change, made, links, is_up=edge == END)
                if edge == END and timing.change.takes_links_down:
                    routes_ns = _routes_ns(timing.change, made, links)
            time_ns = None if made is None else said_ns or made.done_ns
            rows.append(
                {
                    "name": rule.name,
                    "edge": edge,
                    "what": str(rule.action),
                    "device": node.name,
                    "interface": ", ".join(port.name for port in timing.change.ports) if rule.ports else "",
                    "stops_traffic": timing.change.may_stop_traffic,
                    "planned_ns": scenario.planned_ns(moment),
                    "time_ns": time_ns,
                    "uncertainty_ns": None if made is None or time_ns is None or is_exit else time_ns - made.asked_ns,
                    "seen_by": None if made is None else BY_COMMAND if said_ns is None else BY_KERNEL,
                    "routes_ns": routes_ns,
                    "exit_code": timing.exit_code if is_exit else None,
                }
            )
    return rows


def _said_ns(change: Change, made: Made, links: LinkNews, *, is_up: bool) -> int | None:
    """When the kernel said so of the last of its ports; None: it did not, or was heard only after the call returned."""
    node, devices = change.node.name, [port.device for port in change.ports]
    if change.takes_links_down:
        said = [links.first(node, device, is_up=is_up, after_ns=made.asked_ns) for device in devices]
    elif change.changes_qdiscs:
        said = [links.qdisc_changed(node, device, after_ns=made.asked_ns) for device in devices]
    else:
        return None
    known = [one for one in said if one is not None]
    return max(known) if len(known) == len(said) and max(known) <= made.done_ns else None


def _routes_ns(change: Change, made: Made, links: LinkNews) -> int | None:
    """When the kernel had the last route through its links; None: it had none to get back."""
    said = (links.routes_back(change.node.name, port.device, made.asked_ns) for port in change.ports)
    return max((one for one in said if one is not None), default=None)


def _seconds_since(begun_ns: int | None, at_ns: int | None) -> float | None:
    return None if begun_ns is None or at_ns is None else round((at_ns - begun_ns) / NS_PER_S, 6)


def tested_switches(topology: Topology, design: Design) -> list[str]:
    """The switches under test: those that `dut` in the topology names, else all."""
    switches = [node.name for node in design.nodes if not node.is_host]
    named = [name for name in (topology.dut.nodes if topology.dut else ()) if name in switches]
    return named or switches
