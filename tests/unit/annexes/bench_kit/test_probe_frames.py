"""Crafted frames have the contents in their names, and unique fingerprints."""

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Dot1Q, Ether

from emulator.annexes.bench_kit.probe_frames import Probe, Wire, probes
from emulator.roce.wire.icrc import icrc_of_datagram
from emulator.roce.wire.packet import Packet, is_congestion_notification, parse_packet

V4 = Wire("02:00:00:00:00:01", "02:00:00:00:00:02", "198.18.1.1", "198.18.2.1", 1500)
V6 = Wire("02:00:00:00:00:01", "02:00:00:00:00:02", "2001:db8::1", "2001:db8::2", 1500)


def _group(name: str, wire: Wire = V4) -> dict[str, Probe]:
    return {probe.name: probe for probe in probes(wire) if probe.group == name}


def _roce(probe: Probe) -> tuple[Packet, bool]:
    """The packet, and whether its ICRC is right."""
    datagram = bytes(Ether(probe.frame)[IP if Ether(probe.frame).haslayer(IP) else IPv6])
    header = 20 if datagram[0] >> 4 == 4 else 40
    packet = parse_packet(datagram[header + 8 :])
    assert isinstance(packet, Packet)
    return packet, icrc_of_datagram(datagram, header) == packet.icrc


@pytest.mark.parametrize("wire", [V4, V6], ids=["IPv4", "IPv6"])
def test_every_frame_has_a_unique_fingerprint(wire: Wire) -> None:
    made = list(probes(wire))
    assert len(made) > 95
    for probe in made:
        assert [other.name for other in made if probe.fingerprint in other.frame] == [probe.name]
        assert probe.frame[6:12] == bytes.fromhex("020000000001")


@pytest.mark.parametrize("wire", [V4, V6], ids=["IPv4", "IPv6"])
def test_every_code_point_and_mark_is_sent_in_a_valid_packet(wire: Wire) -> None:
    kind, field = (IP, "tos") if wire is V4 else (IPv6, "tc")
    classes = [getattr(Ether(probe.frame)[kind], field) for probe in _group("DSCP", wire).values()]
    assert classes == [dscp << 2 for dscp in range(64)]
    marks = {name: getattr(Ether(probe.frame)[kind], field) & 3 for name, probe in _group("ECN", wire).items()}
    assert marks == {"not ECT": 0, "ECT(1)": 1, "ECT(0)": 2, "CE": 3}
    assert all(_roce(probe)[1] for probe in _group("DSCP", wire).values())


def test_tags_have_the_vlan_and_priority_in_their_name() -> None:
    tags = {name: Ether(probe.frame).getlayer(Dot1Q) for name, probe in _group("VLAN").items()}
    assert tags["untagged"] is None
    assert (tags["VLAN 100, priority 5"].vlan, tags["VLAN 100, priority 5"].prio) == (100, 5)
    assert (tags["priority tag, VLAN 0"].vlan, tags["priority tag, VLAN 0"].prio) == (0, 3)


def test_flow_control_is_sent_to_the_address_that_switches_do_not_forward() -> None:
    frames = {name: probe.frame for name, probe in _group("flow control").items()}
    assert {frame[:6].hex() for frame in frames.values()} == {"0180c2000001"}
    assert frames["PFC, priority 3"][12:36].hex() == "8808" + "0101" + "0008" + "0000" * 3 + "0001" + "0000" * 4 + (
        b"ch".hex()
    )
    assert frames["PAUSE, 0 quanta"][12:18].hex() == "880800010000"


def test_a_notification_is_valid() -> None:
    for probe in _group("CNP").values():
        packet, has_right_icrc = _roce(probe)
        assert is_congestion_notification(packet)
        assert has_right_icrc


def test_one_checksum_is_wrong_and_the_others_right() -> None:
    made = _group("checksums")
    assert _roce(made["bad ICRC"])[1] is False
    for name, probe in made.items():
        packet = Ether(probe.frame)
        told = (packet[IP].chksum, packet[UDP].chksum)
        del packet[IP].chksum, packet[UDP].chksum
        right = Ether(bytes(packet))
        is_right = (told[0] == right[IP].chksum, told[1] == right[UDP].chksum)
        assert is_right == (name != "bad IP checksum", name not in ("bad UDP checksum", "no UDP checksum")), name


def test_the_largest_size_is_one_above_the_mtu() -> None:
    sizes = [len(probe.frame) - 14 for probe in _group("size").values()]
    assert sizes == sorted(sizes)
    assert sizes[-3:] == [1499, 1500, 1501]
    assert any(size % 2 for size in sizes[:-3])


@pytest.mark.parametrize("wire", [V4, V6], ids=["IPv4", "IPv6"])
def test_every_frame_goes_to_the_first_hop_except_flow_control(wire: Wire) -> None:
    for probe in probes(wire):
        hop = probe.frame[:6].hex()
        assert hop == ("0180c2000001" if probe.group == "flow control" else "020000000002")


def test_ipv6_frames_have_no_variants_without_checksums() -> None:
    assert set(_group("checksums", V6)) == {"bad ICRC", "bad UDP checksum", "TTL 1"}
    assert Ether(_group("checksums", V6)["TTL 1"].frame)[IPv6].hlim == 1


def test_frames_of_flow_control_have_the_least_length_of_ethernet() -> None:
    assert {len(probe.frame) for probe in _group("flow control").values()} == {60}


def test_priorities_are_paused_one_by_one_or_all_together() -> None:
    frames = {name: probe.frame[14:34] for name, probe in _group("flow control").items()}
    assert frames["PFC, all priorities"] == b"\x01\x01\x00\xff" + b"\x00\x01" * 8
    assert frames["PFC, 0 quanta"] == b"\x01\x01\x00\xff" + b"\x00\x00" * 8


@pytest.mark.parametrize("mtu", [100, 576, 9000])
def test_sizes_keep_to_the_mtu_of_the_first_link(mtu: int) -> None:
    wire = Wire(V4.source_mac, V4.next_mac, V4.source, V4.destination, mtu)
    sizes = [len(probe.frame) - 14 for probe in _group("size", wire).values()]
    assert sizes[-3:] == [mtu - 1, mtu, mtu + 1]
    assert max(sizes) == mtu + 1


def test_the_fingerprint_of_a_notification_does_not_depend_on_its_marks() -> None:
    for probe in _group("CNP").values():
        start = probe.frame.index(probe.fingerprint)
        assert start > 14 + 20 + 8  # after the headers that a device can change
