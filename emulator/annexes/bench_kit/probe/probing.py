"""Sends crafted frames one at a time, and compares what the other side receives."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace

from emulator.annexes.bench_kit.probe.frames import Probe, Wire, probes
from emulator.annexes.bench_kit.probe.ports import FrameRefusal, ProbePort
from emulator.annexes.bench_kit.probe.side import Side
from emulator.annexes.bench_kit.probe.verdict import FrameOutcome, FrameVerdict, judge
from emulator.planner.network.header_overhead import DEFAULT_MTU

WAIT_S, COPIES_S = 0.1, 0.005
"""How long to wait for a frame, and then for copies of it."""
_ETHERNET_BYTES = 14


def probe_between(
    near: Side, far: Side, *, next_mac: str | None, interval_s: float, raises_mtu: bool
) -> list[FrameVerdict]:
    """Send every probe from one interface to another.

    Args:
        near: interface that sends.
        far: interface that receives.
        next_mac: MAC address of the first hop; None: from the lab, else that of `far`.
        interval_s: shortest time between frames.
        raises_mtu: as for `probe_all`.

    Raises:
        HostError: an interface cannot be used, or goes down.
    """
    with ProbePort(near.device, near.namespace) as sender, ProbePort(far.device, far.namespace) as receiver:
        wire = Wire(
            source_mac=sender.mac,
            next_mac=next_mac or near.next_mac(far.address) or receiver.mac,
            source=near.address,
            destination=far.address,
            mtu=min(near.interface.mtu or sender.mtu or DEFAULT_MTU, sender.mtu),
        )
        return probe_all(sender, receiver, probes(wire), interval_s=interval_s, raises_mtu=raises_mtu)


def probe_all(
    sender: ProbePort,
    receiver: ProbePort,
    probes: Iterable[Probe],
    *,
    interval_s: float,
    raises_mtu: bool,
) -> list[FrameVerdict]:
    """The verdicts on frames, in their order.

    Args:
        sender, receiver: the interfaces.
        probes: the frames.
        interval_s: shortest time between frames.
        raises_mtu: raise the MTU of the sender for frames longer than it, while they are sent.

    Raises:
        HostError: an interface goes down.
    """
    verdicts: list[FrameVerdict] = []
    for probe in probes:
        started = time.monotonic()
        verdicts.append(_probe(sender, receiver, probe, raises_mtu=raises_mtu))
        time.sleep(max(0.0, interval_s - (time.monotonic() - started)))
    return verdicts


def _probe(sender: ProbePort, receiver: ProbePort, probe: Probe, *, raises_mtu: bool) -> FrameVerdict:
    receiver.discard_received()
    refusal = sender.send(probe.frame)
    if refusal is FrameRefusal.TOO_LONG and raises_mtu:
        with sender.with_mtu(len(probe.frame) - _ETHERNET_BYTES):
            return _verdict(receiver, probe, sender.send(probe.frame))
    return _verdict(receiver, probe, refusal)


def _verdict(receiver: ProbePort, probe: Probe, refusal: FrameRefusal | None) -> FrameVerdict:
    if refusal is not None:
        hint = " (--raise-mtu)" if refusal is FrameRefusal.TOO_LONG else ""
        return FrameVerdict(probe.group, probe.name, FrameOutcome.NOT_SENT, why=refusal.value + hint)
    frames = receiver.received(probe.fingerprint, within_s=WAIT_S, more_within_s=COPIES_S)
    verdict = judge(probe.group, probe.name, probe.frame, frames)
    return replace(verdict, copies=len(frames))
