"""Sends one crafted frame after the other, and looks at the other side for what becomes of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import replace

from emulator.planner.network.header_overhead import DEFAULT_MTU
from emulator.probe.frames import Probe, Wire, probes
from emulator.probe.ports import ProbePort, Refusal
from emulator.probe.side import Side
from emulator.probe.verdict import Outcome, Verdict, judge

WAIT_S, COPIES_S = 0.1, 0.005
"""How long a frame may be on its way, and how long copies of it may come after it."""
_ETHERNET_BYTES = 14


def probe_between(near: Side, far: Side, *, next_mac: str | None, interval_s: float, raises_mtu: bool) -> list[Verdict]:
    """Send every probe from one interface to another.

    Args:
        near: where frames go in.
        far: where they come out.
        next_mac: MAC address of the first hop; None: from the lab, else that of `far`.
        interval_s: least time from frame to frame.
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
    told: Callable[[Verdict], None] = lambda verdict: None,
) -> list[Verdict]:
    """A verdict on each frame, in order.

    Args:
        interval_s: least time from frame to frame.
        raises_mtu: raise the sender's MTU by what the one longer frame needs, while it is sent.
        told: called with each as it is known.

    Raises:
        HostError: an interface went down.
    """
    verdicts: list[Verdict] = []
    for probe in probes:
        begun = time.monotonic()
        verdicts.append(_probe(sender, receiver, probe, raises_mtu=raises_mtu))
        told(verdicts[-1])
        time.sleep(max(0.0, interval_s - (time.monotonic() - begun)))
    return verdicts


def _probe(sender: ProbePort, receiver: ProbePort, probe: Probe, *, raises_mtu: bool) -> Verdict:
    receiver.forget()
    refusal = sender.send(probe.frame)
    if refusal is Refusal.TOO_LONG and raises_mtu:
        with sender.mtu_of(len(probe.frame) - _ETHERNET_BYTES):
            return _seen(receiver, probe, sender.send(probe.frame))
    return _seen(receiver, probe, refusal)


def _seen(receiver: ProbePort, probe: Probe, refusal: Refusal | None) -> Verdict:
    if refusal is not None:
        hint = " (--raise-mtu)" if refusal is Refusal.TOO_LONG else ""
        return Verdict(probe.group, probe.name, Outcome.NOT_SENT, why=refusal.value + hint)
    frames = receiver.received(probe.fingerprint, within_s=WAIT_S, more_within_s=COPIES_S)
    verdict = judge(probe.group, probe.name, probe.frame, frames)
    return replace(verdict, copies=len(frames))
