"""The device under test of a run: its firmware profile, and the sources of its counters."""

from __future__ import annotations

from emulator.device.counters.gnmi import GnmiCounters
from emulator.device.counters.host_interfaces import HostInterfaceCounters, interfaces_here
from emulator.device.counters.watch import DutWatch
from emulator.device.profile.load import find_profile, load_profile
from emulator.errors import PlanError
from emulator.experiment.settle.resolve import Resolved
from emulator.experiment.settle.testbed import Testbed
from emulator.experiment.spec.spec import Device


def watch_dut(device: Device, resolved: Resolved, testbed: Testbed) -> DutWatch:
    """The monitor of the device under test; enter it around the run.

    Raises:
        InputError: the profile does not exist, is not valid, or does not fit the lab.
        PlanError: a profile without a lab.
    """
    topology, lab = testbed.topology, testbed.lab
    profile = load_profile(find_profile(device.profile)) if device.profile is not None else None
    if profile is not None and lab is None:
        source = topology.source or "TOPOLOGY"
        problem = "a profile needs a lab, but this run is not in one"
        raise PlanError(f"{problem}: `charkha lab up {source}`, then run with --topology {source}")
    own = interfaces_here(topology) if lab is None else []
    return DutWatch(
        [
            *(GnmiCounters(target) for target in (topology.dut.gnmi if topology.dut else ())),
            *([HostInterfaceCounters(own)] if own else []),
        ],
        topology=topology,
        lab=lab.state if lab is not None else None,
        profile=profile,
        frame_bytes=resolved.full_frame_bytes,
        period_s=resolved.counters_every_s,
    )
