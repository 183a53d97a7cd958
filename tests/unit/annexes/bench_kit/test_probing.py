"""Frames are sent one at a time, and every one gets a verdict."""

import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, cast

import pytest

from emulator.annexes.bench_kit.probe_frames import Probe, Wire, probes
from emulator.annexes.bench_kit.probe_verdict import FrameOutcome, FrameVerdict
from emulator.annexes.bench_kit.probing import (
    FrameRefusal,
    ProbePort,
    find_sides,
    probe_all,
    wire_between,
    with_vlan_tag,
)
from emulator.device.lab.design import make_design
from emulator.device.lab.playing import LabPlace
from emulator.device.lab.state import UP, LabState, Owner
from emulator.errors import InputError, PlanError
from emulator.topology.load import load_topology
from emulator.topology.model import Topology

ROUTED = """
hosts:
- {name: h0, per_rank: 198.18.1.0/24}
- {name: h1, address: 198.18.2.9}
switches: [{name: sw, kind: router}]
links:
- {endpoints: ["h0:eth0", "sw:p0"]}
- {endpoints: ["h1:eth0", "sw:p1"]}
"""


@pytest.fixture
def topology(tmp_path: Path) -> Topology:
    """Two hosts with a router between them."""
    path = tmp_path / "t.yaml"
    path.write_text(ROUTED)
    return load_topology(path, ranks=0)


def in_a_lab(topology: Topology) -> LabPlace:
    """The topology as a lab that is up."""
    owner = Owner(pid=1, began=0)
    return LabPlace(LabState(make_design(topology, "l"), "t.yaml", "00", "t", "2026-01-02", owner, phase=UP))


def test_outside_labs_the_interfaces_are_those_of_this_machine(topology: Topology) -> None:
    near, far = find_sides(topology, None, "h0", "h1:eth0")
    assert (near.device, near.namespace) == ("eth0", None)
    assert (near.address, far.address) == ("198.18.1.1", "198.18.2.9")
    assert near.next_mac(far.address) is None


def test_in_a_lab_the_first_hop_is_that_of_its_routes(topology: Topology) -> None:
    place = in_a_lab(topology)
    near, far = find_sides(topology, place, "h0", "h1")
    design = place.state.design
    assert near.namespace == design.node("h0").namespace
    assert near.device == design.node("h0").ports[0].device
    (router_port,) = (port for port in design.node("sw").ports if port.name == "p0")
    assert near.next_mac(far.address) == router_port.mac
    assert near.next_mac("203.0.113.1") is None


@pytest.mark.parametrize(
    ("source", "destination", "problem"),
    [
        ("h7", "h1", "there is no host 'h7'; hosts: h0, h1"),
        ("h0", "h1:p0", "host h1 has no interface 'p0'; it has eth0"),
        ("sw", "h1", "there is no host 'sw'"),
    ],
)
def test_unknown_hosts_and_interfaces_are_refused_with_a_list(
    topology: Topology, source: str, destination: str, problem: str
) -> None:
    with pytest.raises(InputError, match=problem):
        find_sides(topology, None, source, destination)


def test_sender_and_receiver_must_be_different_interfaces(topology: Topology) -> None:
    with pytest.raises(PlanError, match="--from and --to are both h0:eth0"):
        find_sides(topology, None, "h0", "h0:eth0")


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


class PortDouble(NamedTuple):
    mac: str
    mtu: int = 1500


TOPOLOGY = """
hosts:
- {name: h0, interfaces: [{name: eth0, address: 198.18.1.1MTU}]}
- {name: h1, interfaces: [{name: eth1, address: 198.18.2.9}]}
"""


def wire_of(folder: Path, *, mtu: str = "", port_mtu: int = 1500, next_mac: str | None = None) -> Wire:
    """The path of the frames between both hosts."""
    path = folder / "t.yaml"
    path.write_text(TOPOLOGY.replace("MTU", mtu))
    near, far = find_sides(load_topology(path, ranks=0), None, "h0", "h1")
    assert [(side.device, side.namespace) for side in (near, far)] == [("eth0", None), ("eth1", None)]
    ports = PortDouble("02:00:00:00:00:0a", port_mtu), PortDouble("02:00:00:00:00:0b")
    return wire_between(near, far, *ports, next_mac=next_mac)


def test_without_a_router_the_first_hop_is_the_receiver(tmp_path: Path) -> None:
    wire = wire_of(tmp_path)
    assert (wire.source_mac, wire.next_mac) == ("02:00:00:00:00:0a", "02:00:00:00:00:0b")
    assert (wire.source, wire.destination) == ("198.18.1.1", "198.18.2.9")


def test_a_first_hop_can_be_given(tmp_path: Path) -> None:
    assert wire_of(tmp_path, next_mac="02:00:00:00:00:0c").next_mac == "02:00:00:00:00:0c"


@pytest.mark.parametrize(
    ("mtu", "port_mtu", "used"), [("", 9000, 9000), (", mtu: 1500", 9000, 1500), (", mtu: 9000", 1500, 1500)]
)
def test_the_mtu_is_the_smaller_one_of_topology_and_interface(
    tmp_path: Path, mtu: str, port_mtu: int, used: int
) -> None:
    assert wire_of(tmp_path, mtu=mtu, port_mtu=port_mtu).mtu == used


FRAME = bytes(range(12)) + b"\x08\x00" + b"payload"
SOL_PACKET, AUXDATA = 263, 8
VLAN_VALID, TPID_VALID = 1 << 4, 1 << 6


def auxdata(status: int, *, tag: int = 0x6064, protocol: int = 0x88A8) -> tuple[int, int, bytes]:
    return SOL_PACKET, AUXDATA, struct.pack("=IIIHHHH", status, 60, 60, 0, 0, tag, protocol)


@pytest.mark.parametrize(
    ("status", "tag"), [(VLAN_VALID | TPID_VALID, b"\x88\xa8\x60\x64"), (VLAN_VALID, b"\x81\x00\x60\x64")]
)
def test_a_tag_is_put_back_behind_the_addresses(status: int, tag: bytes) -> None:
    assert with_vlan_tag(FRAME, [auxdata(status)]) == FRAME[:12] + tag + FRAME[12:]


def test_a_frame_without_a_tag_stays_as_it_is() -> None:
    assert with_vlan_tag(FRAME, []) == FRAME
    assert with_vlan_tag(FRAME, [auxdata(0)]) == FRAME
    assert with_vlan_tag(FRAME, [(1, 2, b"other")]) == FRAME
