"""The profile of a lab between two real ports, which stays in force without a run, and the frames that it met."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from emulator.device.counters.counters import DROPS, DUPLICATES, counters_of, sum_up
from emulator.device.lab.between import SWITCH, PortPair, find_ports, own_network
from emulator.device.lab.commands import require_root
from emulator.device.lab.labs import TOOLS, Labs, require_namespaces
from emulator.device.lab.recipe import exec_prefix
from emulator.device.lab.state import LabState
from emulator.device.lab.status import QUEUE_DROPS, device_counters
from emulator.device.profile.applying import AppliedProfile
from emulator.device.profile.changes import Change, plan_changes
from emulator.device.profile.nftables import parse_counters
from emulator.device.profile.profile import Profile, Schedule
from emulator.errors import HostError
from emulator.host.tools import CommandBatch, attempt, require_tools
from emulator.planner.network.header_overhead import roce_packet_bytes, roce_path_mtu


@dataclass(frozen=True, slots=True)
class Passed:
    """What a lab between two real ports has counted: rules since they were applied, the rest since it came up.

    Attributes:
        ports: port → counter → value.
        rules: rule → frames that it dropped, marked or duplicated; without rules that count nothing.
        totals: profile_drops, ecn_marked, profile_duplicates → their sums over all rules.
    """

    pair: PortPair
    ports: Mapping[str, Mapping[str, int]]
    rules: Mapping[str, int]
    totals: Mapping[str, int]

    def sum_of(self, *counters: str) -> int:
        """The sum of counters over both ports."""
        return sum(values.get(name, 0) for values in self.ports.values() for name in counters)

    def to_json(self) -> dict[str, Any]:
        """The same for programs."""
        pair = self.pair
        return {
            "rate_bps": pair.rate_bps,
            "profile": pair.profile,
            "ports": [{"name": name, "counters": dict(values)} for name, values in self.ports.items()],
            "rules": [{"name": name, "action": action, "frames": self.rules.get(name)} for name, action in pair.rules],
            "totals": {**self.totals, "queue_drops": self.queue_drops, "unaccounted": self.unaccounted},
        }

    @property
    def queue_drops(self) -> int:
        """Frames that found a queue full."""
        return self.sum_of(QUEUE_DROPS, "rx_dropped", "tx_dropped")

    @property
    def unaccounted(self) -> int:
        """Frames that came in, did not leave, and that nothing above counts; frames inside are among them."""
        came = self.sum_of("rx_packets") + self.totals.get(DUPLICATES, 0)
        return came - self.sum_of("tx_packets") - self.totals.get(DROPS, 0) - self.queue_drops


def up_between(
    labs: Labs, names: Sequence[str], *, profile: Profile | None, rate_bps: int | None, lab_id: str
) -> LabState:
    """Bring up a lab between two interfaces of this host. If that fails, they are given back.

    Args:
        labs: of this host.
        names: of the interfaces.
        profile: its rules are in force when this returns; None: the lab only forwards.
        rate_bps: rate that both ports are limited to, bit/s.
        lab_id: its id.

    Raises:
        PlanError: an interface cannot be a port, or the id is taken.
        TopologyError: the profile does not fit; the error names file, line and key.
        HostError: the host lacks a right, a tool or a kernel module.
    """
    require_root()
    require_tools((*TOOLS, "nft"))
    labs.make_way(lab_id)
    pair = PortPair(find_ports(names), own_network(), rate_bps)
    if profile is not None:
        _changes(labs.state_between(pair, lab_id), profile)
    state = labs.up_between(pair, lab_id=lab_id)
    try:
        return apply(labs, state, profile) if profile is not None else state
    except BaseException:
        labs.down(lab_id)
        raise


def apply(labs: Labs, state: LabState, profile: Profile) -> LabState:
    """Replace the profile of a lab between two real ports; rules count from 0 again.

    Raises:
        TopologyError: it does not fit; the error names file, line and key.
        PlanError: another process is applying one.
        HostError: a rule cannot be applied; the lab then only forwards.
    """
    require_root()
    changes = _changes(state, profile)
    bare = [state]

    def remember() -> None:
        earlier = _totals(_readings(state), _pair(state))
        pair = replace(_pair(state), profile=None, rules=(), counters=(), earlier=earlier)
        bare[0] = replace(state, between=pair)
        labs.store.write(bare[0])

    folder = labs.store.folder(state.lab_id)
    applied = AppliedProfile(profile.name, changes, design=state.design, folder=folder, before_cleaning=remember)
    applied.__enter__()  # and never left: the rules outlive this process
    try:
        for change in changes:
            applied.start(change)
    except BaseException:
        applied.close()
        raise
    rules = [(rule.name, str(rule.action)) for rule in profile.rules]
    pair = replace(_pair(bare[0]), profile=profile.name, rules=rules, counters=counters_of(changes))
    named = replace(state, between=pair)
    labs.store.write(named)
    return named


def passed(state: LabState) -> Passed:
    """Read the counters of a lab between two real ports.

    Raises:
        HostError: they cannot be read.
    """
    require_root()
    require_namespaces(state)
    pair, readings = _pair(state), _readings(state)
    rules = {one.rule: readings[f"{one.counter}[{one.rule}]"] for one in pair.counters}
    known = device_counters(state.design.nodes[0].namespace)
    ports = {
        port: {name: value - pair.before.get(port, {}).get(name, 0) for name, value in known.get(port, {}).items()}
        for port in pair.names
    }
    return Passed(pair, ports, rules, _totals(readings, pair))


def _pair(state: LabState) -> PortPair:
    assert state.between is not None
    return state.between


def _changes(state: LabState, profile: Profile) -> list[Change]:
    for rule in profile.rules:
        if rule.is_event:
            key = "start" if rule.start is not None else "end"
            problem = "counts from the start of a run, which a lab between two ports does not have: delete it"
            raise profile.error(problem, rule, key)
    frame_bytes = roce_packet_bytes(roce_path_mtu(_pair(state).ports[0].mtu))
    return plan_changes(Schedule(profile), state.design, [SWITCH], frame_bytes=frame_bytes)


def _readings(state: LabState) -> dict[str, int]:
    """The counters of the rules in force, and their sums."""
    listed = attempt(CommandBatch((*exec_prefix(state.design.nodes[0]), "nft", "-j", "list", "counters")))
    if not listed:
        raise HostError(f"counters of lab {state.lab_id} cannot be read: is nft of package nftables installed?")
    sums: Counter[str] = Counter()
    for reading in sum_up(SWITCH, _pair(state).counters, parse_counters(listed.encode())):
        sums[reading.counter] += reading.value
    return dict(sums)


def _totals(readings: Mapping[str, int], pair: PortPair) -> dict[str, int]:
    names = dict.fromkeys([*pair.earlier, *(name for name in readings if "[" not in name)])
    return {name: readings.get(name, 0) + pair.earlier.get(name, 0) for name in names}
