"""Brings boxes up, applies profiles to them, reads their counters, and takes them down."""

from __future__ import annotations

import datetime
import re
import subprocess
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from emulator.device.box.interfaces import find_ports
from emulator.device.box.model import SWITCH, Box
from emulator.device.box.recipe import bring_up, give_back
from emulator.device.box.store import BoxStore
from emulator.device.counters.profile_counters import DROPS, DUPLICATES, counters_of, sum_up
from emulator.device.lab.commands import attempt, require_root, require_tools, run
from emulator.device.lab.links import await_carriers
from emulator.device.lab.recipe import exec_prefix
from emulator.device.lab.removal import existing, remove_namespaces
from emulator.device.lab.status import QUEUE_DROPS, device_counters
from emulator.device.profile.applying import AppliedProfile
from emulator.device.profile.changes import Change, plan_changes
from emulator.device.profile.nftables import parse_counters
from emulator.device.profile.profile import Profile
from emulator.errors import HostError, PlanError
from emulator.planner.network.header_overhead import roce_packet_bytes, roce_path_mtu

TOOLS = ("ip", "tc", "ethtool", "nft", "sysctl", "setpriv")
DEFAULT_ID = "box"
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,31}")
_READINGS = 20
_OWN_NETWORK = Path("/proc/self/ns/net")


@dataclass(frozen=True, slots=True)
class BoxStatus:
    """A box and what it has counted: rules since they were applied, everything else since it came up.

    Attributes:
        ports: port → counter → value.
        rules: rule → frames that it dropped, marked or duplicated; without rules that count nothing.
        totals: profile_drops, ecn_marked, profile_duplicates → their sums over all rules.
    """

    box: Box
    ports: Mapping[str, Mapping[str, int]]
    rules: Mapping[str, int]
    totals: Mapping[str, int]

    def sum_of(self, *counters: str) -> int:
        """The sum of counters over both ports."""
        return sum(values.get(name, 0) for values in self.ports.values() for name in counters)

    def to_json(self) -> dict[str, Any]:
        """The same for programs."""
        box = self.box
        return {
            "id": box.box_id,
            "namespace": box.node.namespace,
            "created": box.created,
            "rate_bps": box.rate_bps,
            "profile": box.profile,
            "ports": [{"name": name, "counters": dict(values)} for name, values in self.ports.items()],
            "rules": [{"name": name, "action": action, "frames": self.rules.get(name)} for name, action in box.rules],
            "totals": {**self.totals, "queue_drops": self.queue_drops, "unaccounted": self.unaccounted},
        }

    @property
    def queue_drops(self) -> int:
        """Frames that found a queue of the box full."""
        return self.sum_of(QUEUE_DROPS, "rx_dropped", "tx_dropped")

    @property
    def unaccounted(self) -> int:
        """Frames that came in, did not leave, and that nothing above counts; frames inside the box are among them."""
        came = self.sum_of("rx_packets") + self.totals.get(DUPLICATES, 0)
        return came - self.sum_of("tx_packets") - self.totals.get(DROPS, 0) - self.queue_drops


class Boxes:
    """The boxes of this machine.

    Args:
        store: where their states are.
    """

    def __init__(self, store: BoxStore | None = None) -> None:
        self.store = store or BoxStore()

    def up(
        self, names: Sequence[str], *, profile: Profile | None, rate_bps: int | None = None, box_id: str = DEFAULT_ID
    ) -> Box:
        """Bring up a box. If that fails, its ports are given back.

        Args:
            names: two interfaces of this host.
            profile: its rules are in force when this returns; None: the box only forwards.
            rate_bps: rate that both ports are limited to, bit/s.
            box_id: its id.

        Raises:
            PlanError: an interface cannot be a port, or the id is taken.
            TopologyError: the profile does not fit a box; the error names file, line and key.
            HostError: the host lacks a right, a tool or a kernel module.
        """
        require_root("a box")
        require_tools(TOOLS)
        if not _ID.fullmatch(box_id):
            problem = "1 to 32 letters, digits, dots, dashes or underscores, a letter or digit first"
            raise PlanError(f"--id {box_id!r}: {problem}")
        created = datetime.datetime.now(datetime.UTC).astimezone().isoformat(timespec="milliseconds")
        box = Box(box_id, find_ports(names), _own_network(), created, rate_bps)
        if profile is not None:
            _changes(box, profile)
        if existing([box.node.namespace]) and box_id not in self.store.ids():
            raise PlanError(
                f"namespace {box.node.namespace} exists and belongs to no box: give a different name with --id"
            )
        self.store.claim(box)
        try:
            for batch in bring_up(box):
                run(batch, what="the box")
            await_carriers([box.node])
            box = replace(box, before=_port_counters_at_rest(box))
            self.store.write(box)
            return self.apply(box, profile) if profile is not None else box
        except BaseException:
            self.down(box)
            raise

    def apply(self, box: Box, profile: Profile) -> Box:
        """Replace the profile of a box; rules count from 0 again.

        Raises:
            TopologyError: it does not fit a box; the error names file, line and key.
            PlanError: another process is applying one.
            HostError: a rule cannot be applied; the box then only forwards.
        """
        require_root("a box")
        changes = _changes(box, profile)
        bare = [box]

        def remember() -> None:
            bare[0] = replace(box, profile=None, rules=(), counters=(), earlier=_totals(_readings(box), box))
            self.store.write(bare[0])

        applied = AppliedProfile(
            profile.name,
            changes,
            design=box.design,
            folder=self.store.folder(box.box_id),
            kind="box",
            before_cleaning=remember,
        )
        applied.__enter__()  # and never left: the rules outlive this process
        try:
            for change in changes:
                applied.start(change)
        except BaseException:
            applied.close()
            raise
        rules = [(rule.name, str(rule.action)) for rule in profile.rules]
        named = replace(bare[0], profile=profile.name, rules=rules, counters=counters_of(changes))
        self.store.write(named)
        return named

    def status(self, box: Box) -> BoxStatus:
        """Read the counters of a box.

        Raises:
            HostError: they cannot be read.
        """
        require_root("a box")
        node = box.node
        if not existing([node.namespace]):
            raise HostError(
                f"the namespace of box {box.box_id} is gone: `charkha box down {box.box_id}` removes what is left"
            )
        readings = _readings(box)
        rules = {one.rule: readings[f"{one.counter}[{one.rule}]"] for one in box.counters}
        ports = {
            port: {name: value - box.before.get(port, {}).get(name, 0) for name, value in values.items()}
            for port, values in _port_counters(box).items()
        }
        return BoxStatus(box, ports, rules, _totals(readings, box))

    def down(self, box: Box) -> None:
        """Give the ports of a box back as they were, and remove it.

        Raises:
            PlanError: it was brought up in another network namespace.
            HostError: the user is not root, or a port stays.
        """
        require_root("a box")
        if box.network != _own_network():
            raise PlanError(f"box {box.box_id} was brought up in another network namespace: take it down there")
        for batch in give_back(box):
            attempt(batch)
        kept = [name for name in device_counters(box.node.namespace) if name in {port.name for port in box.ports}]
        if kept:
            raise HostError(f"{kept[0]} cannot be moved out of {box.node.namespace}: is there another {kept[0]} here?")
        left = remove_namespaces([box.node.namespace])
        if left:
            raise HostError(f"namespace {left[0]} cannot be removed: try `ip netns delete {left[0]}`")
        self.store.forget(box.box_id)


def _changes(box: Box, profile: Profile) -> list[Change]:
    for rule in profile.rules:
        if rule.is_timed:
            key = "start" if rule.start_s is not None else "end"
            raise profile.error("counts from the start of a run, which a box does not have: delete it", rule, key)
    frame_bytes = roce_packet_bytes(roce_path_mtu(box.ports[0].mtu))
    return plan_changes(profile, box.design, [SWITCH], frame_bytes=frame_bytes)


def _port_counters(box: Box) -> dict[str, Mapping[str, int]]:
    known = device_counters(box.node.namespace)
    return {port.name: known.get(port.name, {}) for port in box.ports}


def _port_counters_at_rest(box: Box) -> dict[str, Mapping[str, int]]:
    """Counters with no frame between the readings of the two ports, which would count at one of them for good.

    Between ports that are never idle for as long as two readings take, the last reading serves.
    """
    found = _port_counters(box)
    for _ in range(_READINGS):
        if found == (again := _port_counters(box)):
            break
        found = again
    return found


def _readings(box: Box) -> dict[str, int]:
    """The counters of the rules in force, and their sums."""
    listed = subprocess.run((*exec_prefix(box.node), "nft", "-j", "list", "counters"), capture_output=True, check=False)
    if listed.returncode:
        raise HostError(f"counters of box {box.box_id} cannot be read: {listed.stderr.decode().strip()}")
    found: Counter[str] = Counter()
    for one in sum_up(SWITCH, box.counters, parse_counters(listed.stdout)):
        found[one.counter] += one.value
    return dict(found)


def _totals(readings: Mapping[str, int], box: Box) -> dict[str, int]:
    names = dict.fromkeys([*box.earlier, *(name for name in readings if "[" not in name)])
    return {name: readings.get(name, 0) + box.earlier.get(name, 0) for name in names}


def _own_network() -> int:
    return _OWN_NETWORK.stat().st_ino
