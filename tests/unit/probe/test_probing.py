"""Frames are sent one at a time, and every one gets a verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import cast

from emulator.probe.frames import Probe, Wire, probes
from emulator.probe.ports import ProbePort, Refusal
from emulator.probe.probing import probe_all
from emulator.probe.verdict import Outcome, Verdict

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

    def send(self, frame: bytes) -> Refusal | None:
        if len(frame) - ETHERNET_BYTES > self.mtu:
            return Refusal.TOO_LONG
        if len(frame) > self._shaper_bytes:
            return Refusal.QUEUE
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

    def probe(self, probes: Sequence[Probe] = PROBES, *, raises_mtu: bool = False) -> list[Verdict]:
        port = cast(ProbePort, self)
        return probe_all(port, port, probes, interval_s=0, raises_mtu=raises_mtu)


def named(name: str) -> Probe:
    return next(one for one in PROBES if one.name == name)


def test_a_cable_passes_every_frame_but_the_one_over_the_mtu() -> None:
    verdicts = Bench().probe()
    assert [one.name for one in verdicts] == [one.name for one in PROBES]
    (refused,) = (one for one in verdicts if one.outcome is not Outcome.PASS)
    assert (refused.name, refused.outcome) == ("1,501 bytes (one over the MTU)", Outcome.NOT_SENT)
    assert refused.why == "it is longer than the MTU of the interface (--raise-mtu)"
    assert all(one.copies == 1 for one in verdicts if one.outcome is Outcome.PASS)


def test_the_mtu_is_raised_for_the_one_longer_frame_and_restored() -> None:
    bench = Bench()
    verdicts = bench.probe(raises_mtu=True)
    assert {one.outcome for one in verdicts} == {Outcome.PASS}
    assert (bench.mtus, bench.mtu) == ([1501], 1500)


def test_a_shaper_of_the_sender_is_named_even_with_a_raised_mtu() -> None:
    bench = Bench(shaper_bytes=1500 + ETHERNET_BYTES)
    (verdict,) = bench.probe([named("1,501 bytes (one over the MTU)")], raises_mtu=True)
    assert verdict.outcome is Outcome.NOT_SENT
    assert verdict.why == "the queue of the interface dropped it, as a shaper does with frames above the MTU"


def test_a_device_that_forwards_nothing_drops_everything_that_was_sent() -> None:
    verdicts = Bench(lambda frame: []).probe(PROBES[:5])
    assert [(one.outcome, one.copies) for one in verdicts] == [(Outcome.DROPPED, 0)] * 5


def test_copies_of_a_frame_are_counted() -> None:
    (verdict,) = Bench(lambda frame: [frame, frame, frame]).probe([named("CE")])
    assert (verdict.outcome, verdict.copies) == (Outcome.PASS, 3)


def test_other_traffic_and_late_frames_do_not_count() -> None:
    late: list[bytes] = []

    def slow(frame: bytes) -> list[bytes]:
        arrived, late[:] = [*late, b"other traffic"], [frame]
        return arrived

    assert {one.outcome for one in Bench(slow).probe(PROBES[:4])} == {Outcome.DROPPED}


def test_a_device_that_remarks_alters_the_frames_that_it_remarks() -> None:
    def remark(frame: bytes) -> list[bytes]:
        return [frame[:15] + bytes([frame[15] & 0x03]) + frame[16:]]

    (verdict,) = Bench(remark).probe([named("DSCP 46")])
    assert verdict.outcome is Outcome.ALTERED
    assert "DSCP 46 to 0" in verdict.changes
