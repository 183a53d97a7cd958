"""Frames are sent one at a time, and every one gets a verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar, Self, cast

import pytest

from emulator.annexes.bench_kit.probe import probing
from emulator.annexes.bench_kit.probe.frames import Probe, Wire, probes
from emulator.annexes.bench_kit.probe.ports import FrameRefusal, ProbePort
from emulator.annexes.bench_kit.probe.probing import probe_all
from emulator.annexes.bench_kit.probe.side import find_sides
from emulator.annexes.bench_kit.probe.verdict import FrameOutcome, FrameVerdict
from emulator.topology.load import load_topology

WIRE = Wire("02:00:00:00:00:01", "02:00:00:00:00:02", "198.18.1.1", "198.18.2.1", 1500)
PROBES = list(probes(WIRE))
ETHERNET_BYTES = 14
Device = Callable[[bytes], Sequence[bytes]]


class Bench:
    """Both ports, and a device between them in memory.

    Args:
        device: the frames that come out for one that goes in.
        shaper_bytes: longest frame that the queue of the sender passes.
    """

    def __init__(self, device: Device = lambda frame: [frame], *, mtu: int = 1500, shaper_bytes: int = 9000) -> None:
        self._device, self._shaper_bytes, self.mtu = device, shaper_bytes, mtu
        self._arrived: list[bytes] = []
        self.mtus: list[int] = []

    def send(self, frame: bytes) -> FrameRefusal | None:
        if len(frame) - ETHERNET_BYTES > self.mtu:
            return FrameRefusal.TOO_LONG
        if len(frame) > self._shaper_bytes:
            return FrameRefusal.QUEUE
        self._arrived += self._device(frame)
        return None

    @contextmanager
    def with_mtu(self, mtu: int) -> Iterator[None]:
        before, self.mtu = self.mtu, mtu
        self.mtus.append(mtu)
        yield
        self.mtu = before

    def discard_received(self) -> None:
        self._arrived.clear()

    def received(self, fingerprint: bytes, *, within_s: float, more_within_s: float) -> list[bytes]:
        return [frame for frame in self._arrived if fingerprint in frame]

    def probe(self, probes: Sequence[Probe] = PROBES, *, raises_mtu: bool = False) -> list[FrameVerdict]:
        port = cast(ProbePort, self)
        return probe_all(port, port, probes, interval_s=0, raises_mtu=raises_mtu)


def named(name: str) -> Probe:
    return next(one for one in PROBES if one.name == name)


def test_a_cable_passes_every_frame_but_the_one_over_the_mtu() -> None:
    verdicts = Bench().probe()
    assert [one.name for one in verdicts] == [one.name for one in PROBES]
    (refused,) = (one for one in verdicts if one.outcome is not FrameOutcome.PASS)
    assert (refused.name, refused.outcome) == ("1,501 bytes (one over the MTU)", FrameOutcome.NOT_SENT)
    assert refused.why == "it is longer than the MTU of the interface (--raise-mtu)"
    assert all(one.copies == 1 for one in verdicts if one.outcome is FrameOutcome.PASS)


def test_the_mtu_is_raised_for_the_one_longer_frame_and_restored() -> None:
    bench = Bench()
    verdicts = bench.probe(raises_mtu=True)
    assert {one.outcome for one in verdicts} == {FrameOutcome.PASS}
    assert (bench.mtus, bench.mtu) == ([1501], 1500)


def test_a_shaper_of_the_sender_is_named_even_with_a_raised_mtu() -> None:
    bench = Bench(shaper_bytes=1500 + ETHERNET_BYTES)
    (verdict,) = bench.probe([named("1,501 bytes (one over the MTU)")], raises_mtu=True)
    assert verdict.outcome is FrameOutcome.NOT_SENT
    assert verdict.why == "the queue of the interface dropped it, as a shaper does with frames above the MTU"


def test_a_device_that_forwards_nothing_drops_everything_that_was_sent() -> None:
    verdicts = Bench(lambda frame: []).probe(PROBES[:5])
    assert [(one.outcome, one.copies) for one in verdicts] == [(FrameOutcome.DROPPED, 0)] * 5


def test_copies_of_a_frame_are_counted() -> None:
    (verdict,) = Bench(lambda frame: [frame, frame, frame]).probe([named("CE")])
    assert (verdict.outcome, verdict.copies) == (FrameOutcome.PASS, 3)


def test_other_traffic_and_late_frames_do_not_count() -> None:
    late: list[bytes] = []

    def slow(frame: bytes) -> list[bytes]:
        arrived, late[:] = [*late, b"other traffic"], [frame]
        return arrived

    assert {one.outcome for one in Bench(slow).probe(PROBES[:4])} == {FrameOutcome.DROPPED}


def test_a_device_that_remarks_alters_the_frames_that_it_remarks() -> None:
    def remark(frame: bytes) -> list[bytes]:
        return [frame[:15] + bytes([frame[15] & 0x03]) + frame[16:]]

    (verdict,) = Bench(remark).probe([named("DSCP 46")])
    assert verdict.outcome is FrameOutcome.ALTERED
    assert "DSCP 46 to 0" in verdict.changes


class PortDouble:
    """A port of the host, opened by its device."""

    opened: ClassVar[list[tuple[str, str | None]]] = []
    mtus: ClassVar[dict[str, int]] = {}

    def __init__(self, device: str, namespace: str | None = None) -> None:
        self.device = device
        self.opened.append((device, namespace))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        return None

    @property
    def mac(self) -> str:
        return {"eth0": "02:00:00:00:00:0a", "eth1": "02:00:00:00:00:0b"}[self.device]

    @property
    def mtu(self) -> int:
        return self.mtus.get(self.device, 1500)


TOPOLOGY = """
hosts:
- {name: h0, interfaces: [{name: eth0, address: 198.18.1.1MTU}]}
- {name: h1, interfaces: [{name: eth1, address: 198.18.2.9}]}
"""


def wire_of(
    folder: Path, monkeypatch: pytest.MonkeyPatch, *, mtu: str = "", port_mtu: int = 1500, next_mac: str | None = None
) -> Wire:
    """The path of the frames between both hosts."""
    path = folder / "t.yaml"
    path.write_text(TOPOLOGY.replace("MTU", mtu))
    near, far = find_sides(load_topology(path, ranks=0), None, "h0", "h1")
    wires: list[Wire] = []
    monkeypatch.setattr(PortDouble, "opened", [])
    monkeypatch.setattr(PortDouble, "mtus", {"eth0": port_mtu})
    monkeypatch.setattr(probing, "ProbePort", PortDouble)

    def no_probes(wire: Wire) -> list[Probe]:
        wires.append(wire)
        return []

    monkeypatch.setattr(probing, "probes", no_probes)
    assert probing.probe_between(near, far, next_mac=next_mac, interval_s=0, raises_mtu=False) == []
    assert PortDouble.opened == [("eth0", None), ("eth1", None)]
    return wires[0]


def test_without_a_router_the_first_hop_is_the_receiver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wire = wire_of(tmp_path, monkeypatch)
    assert (wire.source_mac, wire.next_mac) == ("02:00:00:00:00:0a", "02:00:00:00:00:0b")
    assert (wire.source, wire.destination) == ("198.18.1.1", "198.18.2.9")


def test_a_first_hop_can_be_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert wire_of(tmp_path, monkeypatch, next_mac="02:00:00:00:00:0c").next_mac == "02:00:00:00:00:0c"


@pytest.mark.parametrize(
    ("mtu", "port_mtu", "used"), [("", 9000, 9000), (", mtu: 1500", 9000, 1500), (", mtu: 9000", 1500, 1500)]
)
def test_the_mtu_is_the_smaller_one_of_topology_and_interface(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mtu: str, port_mtu: int, used: int
) -> None:
    assert wire_of(tmp_path, monkeypatch, mtu=mtu, port_mtu=port_mtu).mtu == used
