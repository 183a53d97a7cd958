"""`charkha lab probe`: sends crafted frames one at a time from one of two interfaces, and compares what the
other one receives.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import fcntl
import select
import socket
import struct
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Protocol, Self

from emulator.annexes.bench_kit.probe_frames import Probe, Wire, probes
from emulator.annexes.bench_kit.probe_verdict import FrameOutcome, FrameVerdict, judge
from emulator.cli.output import print_json, print_tables
from emulator.cli.parser import Subparsers, argument
from emulator.device.lab.commands import inside
from emulator.device.lab.model import Node
from emulator.device.lab.playing import LabPlace, find_place
from emulator.errors import HostError, InputError, PlanError
from emulator.planner.network.header_overhead import DEFAULT_MTU
from emulator.topology.load import load_topology
from emulator.topology.model import Topology
from emulator.topology.network import Interface
from emulator.units import parse_number

_EPILOG = """example:
  charkha lab up topologies/two-hosts-switch.yaml
  charkha lab probe --topology topologies/two-hosts-switch.yaml --from h0 --to h1

Both hosts are in a lab on this machine, or both interfaces belong to this machine.
docs/probe.md lists the frames.
"""


def add_parser(subparsers: Subparsers) -> None:
    """Add `probe` to the command line."""
    parser = subparsers.add_parser(
        "probe",
        description="Send crafted frames from one interface of a topology to another and compare what arrives.",
        epilog=_EPILOG,
    )
    parser.add_argument("--topology", metavar="FILE", type=Path, required=True, help="topology with both interfaces")
    parser.add_argument("--from", dest="source", metavar="HOST[:PORT]", required=True, help="where to send frames")
    parser.add_argument("--to", dest="destination", metavar="HOST[:PORT]", required=True, help="where to receive them")
    parser.add_argument("--all", action="store_true", help="also list frames that pass")
    parser.add_argument("--json", action="store_true", help="print every verdict as JSON")
    path = parser.add_advanced_group("path")
    path.add_argument("--lab", metavar="ID", help="the lab, if the topology has several")
    path.add_argument("--next-mac", metavar="MAC", help="MAC of the first hop (default: from the lab, or of --to)")
    path.add_argument(
        "--allow-network", metavar="PREFIX", action="append", default=[], help="allow addresses of this prefix"
    )
    sending = parser.add_advanced_group("sending")
    sending.add_argument(
        "--rate",
        metavar="N",
        type=argument(partial(parse_number, unit="frames per second", most=1000)),
        default=50.0,
        help="maximum frames per second (default: 50)",
    )
    sending.add_argument(
        "--raise-mtu", action="store_true", help="raise the sender's MTU by 1 to send the frame above the MTU"
    )
    parser.add_explain("emulator.annexes.bench_kit.probe_verdict")
    parser.set_defaults(handler=_run)


def _run(args: argparse.Namespace) -> None:
    topology = load_topology(args.topology, ranks=0, allow_networks=args.allow_network)
    near, far = find_sides(topology, find_place(topology, args.lab), args.source, args.destination)
    try:
        from emulator.annexes.bench_kit.probe_verdict import probe_to_json, render
    except ImportError as error:
        raise HostError("probes need scapy: pip install 'charkha[probe]'") from error
    verdicts = probe_between(near, far, next_mac=args.next_mac, interval_s=1 / args.rate, raises_mtu=args.raise_mtu)
    if args.json:
        print_json({"from": args.source, "to": args.destination} | probe_to_json(verdicts))
    else:
        headline = f"{len(verdicts)} frames from {args.source} to {args.destination}"
        print_tables(headline, "", render(verdicts, every=args.all))


@dataclass(frozen=True, slots=True)
class Side:
    """An interface of the topology, and where it is on this machine.

    Attributes:
        host: the host of the topology.
        interface: one of its interfaces.
        device: the name of the interface where it is.
        namespace: the network namespace it is in; None: this process's own.
        node: the host in a lab; None outside labs.
    """

    host: str
    interface: Interface
    device: str
    namespace: str | None = None
    node: Node | None = None

    @property
    def address(self) -> str:
        """An address that ranks use there."""
        if self.interface.prefix is not None:
            return str(next(iter(ip_network(self.interface.prefix).hosts())))
        return self.interface.addresses[0]

    def next_mac(self, address: str) -> str | None:
        """The MAC address of the first hop to an address, as configured in the lab; None if it is not known."""
        if self.node is None:
            return None
        hops = [address] + [
            hop.address
            for route in self.node.routes
            if ip_address(address) in ip_network(route.prefix)
            for hop in route.hops
        ]
        known = {one.address: one.mac for one in self.node.neighbours if one.device == self.device}
        return next((known[hop] for hop in hops if hop in known), None)


def find_sides(topology: Topology, place: LabPlace | None, source: str, destination: str) -> tuple[Side, Side]:
    """The sides that the user named.

    Args:
        topology: has the interfaces.
        place: the lab they are in; None: this machine's own interfaces.
        source: HOST or HOST:PORT where to send frames; without a port, the host's first interface.
        destination: the same where to receive them.

    Raises:
        InputError: the topology has no such host or interface.
        PlanError: both are the same interface.
    """
    near, far = (_find_side(topology, place, text) for text in (source, destination))
    if (near.host, near.interface.name) == (far.host, far.interface.name):
        raise PlanError(f"--from and --to are both {near.host}:{near.interface.name}: name two interfaces")
    return near, far


def _find_side(topology: Topology, place: LabPlace | None, text: str) -> Side:
    host, _, port = text.partition(":")
    interfaces = topology.network.interfaces.get(host)
    if interfaces is None:
        raise InputError(f"there is no host {host!r}; hosts: {', '.join(topology.network.interfaces)}")
    interface = next((one for one in interfaces if port in ("", one.name)), None)
    if interface is None:
        raise InputError(f"host {host} has no interface {port!r}; it has {', '.join(one.name for one in interfaces)}")
    if place is None:
        return Side(host, interface, interface.name)
    node = next(node for node in place.state.design.nodes if node.name == host)
    return Side(host, interface, place.devices[host, interface.name], place.namespaces[host], node)


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
        wire = wire_between(near, far, sender, receiver, next_mac=next_mac)
        return probe_all(sender, receiver, probes(wire), interval_s=interval_s, raises_mtu=raises_mtu)


class OpenPort(Protocol):
    """What a path needs to know of a port at one of its ends."""

    @property
    def mac(self) -> str:
        """Its MAC address."""
        ...

    @property
    def mtu(self) -> int:
        """That of the interface, bytes."""
        ...


def wire_between(near: Side, far: Side, sender: OpenPort, receiver: OpenPort, *, next_mac: str | None) -> Wire:
    """The path of frames from one port to another; arguments as for `probe_between`."""
    return Wire(
        source_mac=sender.mac,
        next_mac=next_mac or near.next_mac(far.address) or receiver.mac,
        source=near.address,
        destination=far.address,
        mtu=min(near.interface.mtu or sender.mtu or DEFAULT_MTU, sender.mtu),
    )


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


_ETH_P_ALL = 0x0003  # linux/if_ether.h
_SIOCGIFMTU, _SIOCSIFMTU, _SIOCGIFHWADDR = 0x8921, 0x8922, 0x8927  # linux/sockios.h
_SOL_PACKET, _PACKET_ADD_MEMBERSHIP, _PACKET_AUXDATA, _PACKET_MR_PROMISC = 263, 1, 8, 1  # linux/if_packet.h
_PACKET_OUTGOING = 4
_STATUS_VLAN_VALID, _STATUS_VLAN_TPID_VALID = 1 << 4, 1 << 6
_AUXDATA = struct.Struct("=IIIHHHH")
_MACS = 12
_LARGEST = 1 << 16


class FrameRefusal(Enum):
    """Why a frame did not leave this host."""

    TOO_LONG = "it is longer than the MTU of the interface"
    QUEUE = "the queue of the interface dropped it, as a shaper does with frames above the MTU"


def with_vlan_tag(frame: bytes, control: Iterable[tuple[int, int, bytes]]) -> bytes:
    """A frame as it was on the wire: the kernel removes the VLAN tag, and reports it in the control messages."""
    for level, kind, value in control:
        if (level, kind) == (_SOL_PACKET, _PACKET_AUXDATA):
            status, *_, tag, protocol = _AUXDATA.unpack_from(value)
            if status & _STATUS_VLAN_VALID:
                protocol = protocol if status & _STATUS_VLAN_TPID_VALID else 0x8100
                return frame[:_MACS] + struct.pack("!HH", protocol, tag) + frame[_MACS:]
    return frame


class ProbePort:
    """A context manager around a packet socket at an interface.

    Args:
        device: the interface.
        namespace: its network namespace; None for the present one.

    Raises:
        HostError: the interface does not exist, or the user lacks the privilege.
    """

    def __init__(self, device: str, namespace: str | None = None) -> None:
        self.device = device
        with inside(namespace):
            try:
                self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_NONBLOCK)
            except PermissionError as error:
                raise HostError("probes need CAP_NET_RAW: run the command with sudo") from error
        try:
            self._socket.setsockopt(_SOL_PACKET, _PACKET_AUXDATA, 1)
            self._socket.bind((device, _ETH_P_ALL))
            index = self._socket_index()
            promiscuous = struct.pack("=iHH8s", index, _PACKET_MR_PROMISC, 0, b"")
            self._socket.setsockopt(_SOL_PACKET, _PACKET_ADD_MEMBERSHIP, promiscuous)
        except OSError as error:
            self._socket.close()
            raise HostError(
                f"interface {device} cannot be used ({error.strerror}): `ip link` lists the interfaces"
            ) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._socket.close()

    @property
    def mac(self) -> str:
        """The MAC address of the interface."""
        reply = self._ioctl(_SIOCGIFHWADDR, bytes(24))
        return ":".join(f"{byte:02x}" for byte in reply[18:24])

    @property
    def mtu(self) -> int:
        """The MTU of the interface, bytes of an IP packet."""
        (mtu,) = struct.unpack_from("=i", self._ioctl(_SIOCGIFMTU, bytes(24)), 16)
        return int(mtu)

    @contextlib.contextmanager
    def with_mtu(self, mtu: int) -> Iterator[None]:
        """Set the MTU of the interface during the body of the `with`.

        Raises:
            HostError: the interface does not support it.
        """
        before = self.mtu
        try:
            self._ioctl(_SIOCSIFMTU, struct.pack("=i20x", mtu))
        except OSError as error:
            raise HostError(f"{self.device} cannot send {mtu} bytes ({error.strerror})") from error
        try:
            yield
        finally:
            self._ioctl(_SIOCSIFMTU, struct.pack("=i20x", before))

    def send(self, frame: bytes) -> FrameRefusal | None:
        """Send a frame.

        Returns:
            None, or why the frame did not leave this host.

        Raises:
            HostError: the interface cannot send.
        """
        try:
            self._socket.send(frame)
        except OSError as error:
            if error.errno == errno.EMSGSIZE:
                return FrameRefusal.TOO_LONG
            if error.errno == errno.ENOBUFS:
                return FrameRefusal.QUEUE
            raise HostError(f"{self.device} cannot send ({error.strerror}): `ip link set {self.device} up`") from error
        return None

    def received(self, fingerprint: bytes, *, within_s: float, more_within_s: float) -> list[bytes]:
        """Received frames that contain a fingerprint, VLAN tag included.

        Args:
            fingerprint: the bytes.
            within_s: how long to wait for the first frame.
            more_within_s: how long to wait for copies after each.
        """
        found: list[bytes] = []
        deadline = time.monotonic() + within_s
        while (left := deadline - time.monotonic()) > 0:
            if not select.select([self._socket], [], [], left)[0]:
                break
            frame = self._take()
            if frame is not None and fingerprint in frame:
                found.append(frame)
                deadline = min(deadline, time.monotonic() + more_within_s)
        return found

    def discard_received(self) -> None:
        """Discard the frames received so far."""
        with contextlib.suppress(BlockingIOError):
            while True:
                self._socket.recv(_LARGEST)

    def _take(self) -> bytes | None:
        """The next received frame; None for a frame that this host sends."""
        frame, control, _, where = self._socket.recvmsg(_LARGEST, socket.CMSG_SPACE(_AUXDATA.size))
        if where[2] == _PACKET_OUTGOING:
            return None
        return with_vlan_tag(frame, control)

    def _ioctl(self, request: int, argument: bytes) -> bytes:
        reply: bytes = fcntl.ioctl(self._socket, request, self.device.encode().ljust(16, b"\0") + argument)
        return reply

    def _socket_index(self) -> int:
        (index,) = struct.unpack_from("=i", self._ioctl(0x8933, bytes(24)), 16)  # SIOCGIFINDEX
        return int(index)
