"""The present state of a lab: its design, and what the kernel has counted.

The userspace datapath of Open vSwitch receives and sends the frames of every port through a packet socket. The kernel
drops frames at such a socket when its buffer is full, and counts them there alone: no counter of the interface, of a
queue or of Open vSwitch itself shows them. The default buffer has room for about 90 frames. Open vSwitch has no setting
for it, so the buffers are enlarged from outside, through pidfd_getfd(2).
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import os
import socket
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from emulator.device.lab.commands import processes_in
from emulator.device.lab.links import PortLink, links_of
from emulator.device.lab.model import OVS, Node
from emulator.device.lab.state import LabState
from emulator.errors import HostError
from emulator.host.tools import CommandBatch, listed

SOCKET_DROPS = "socket_drops"
"""Counter: frames that a packet socket dropped because its buffer was full."""

_VSWITCHD = "ovs-vswitchd"
_PIDFD_GETFD = 438  # linux/unistd.h, the same on every architecture
_SO_SNDBUFFORCE, _SO_RCVBUFFORCE, _SO_MEMINFO = 32, 33, 55  # asm-generic/socket.h
_MEMINFO = struct.Struct("=9I")
_DROPS = 8  # SK_MEMINFO_DROPS of linux/sock_diag.h
_LEAST_BUFFER_BYTES = 8 << 20
_TRUE_SIZE = 4
"""What the kernel charges for a frame / its length, at most: a full frame of MTU 1,500 counts as 2,304 bytes."""


def enlarge_buffers(namespace: str, *, queue_bytes: int) -> None:
    """Give every packet socket of a switch room for its port's queue, in both directions.

    Args:
        namespace: of the switch.
        queue_bytes: the longest queue of its ports.

    Raises:
        HostError: the kernel does not allow it. The switch would lose frames that nobody counts.
    """
    size = max(_LEAST_BUFFER_BYTES, _TRUE_SIZE * queue_bytes)
    try:
        for sock in packet_sockets([namespace]).values():
            with sock:
                sock.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, size)
                sock.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, size)
    except OSError as error:
        raise HostError(
            f"the packet buffers of Open vSwitch cannot be enlarged ({error.strerror}), so it would drop frames: "
            "allow CAP_SYS_PTRACE and CAP_NET_ADMIN, or use switches of kind bridge"
        ) from error


def packet_sockets(namespaces: Iterable[str]) -> Mapping[str, socket.socket]:
    """Duplicates of the packet sockets of Open vSwitch in these namespaces, by device; the caller closes them.

    Raises:
        OSError: the kernel does not allow it.
    """
    found: dict[str, socket.socket] = {}
    for pid in processes_in(namespaces):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if Path(f"/proc/{pid}/comm").read_text().strip() == _VSWITCHD:
                found |= _packet_sockets_of(pid)
    return found


def drops(sock: socket.socket) -> int:
    """Frames that a packet socket has dropped since it was opened."""
    counted: int = _MEMINFO.unpack(sock.getsockopt(socket.SOL_SOCKET, _SO_MEMINFO, _MEMINFO.size))[_DROPS]
    return counted


def _packet_sockets_of(pid: int) -> Mapping[str, socket.socket]:
    found: dict[str, socket.socket] = {}
    process = os.pidfd_open(pid)
    try:
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):
                if str(entry.readlink()).startswith("socket:"):
                    sock = socket.socket(fileno=_duplicate(process, int(entry.name)))
                    device = sock.getsockname()[0] if sock.family == socket.AF_PACKET else ""
                    if device:
                        found[device] = sock
                    else:
                        sock.close()
    except BaseException:
        for sock in found.values():
            sock.close()
        raise
    finally:
        os.close(process)
    return found


def _duplicate(process: int, number: int) -> int:
    """A descriptor of this process for that of another one."""
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor: int = libc.syscall(_PIDFD_GETFD, process, number, 0)
    if descriptor < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return descriptor


COUNTERS = ("rx_packets", "rx_bytes", "rx_dropped", "rx_errors", "tx_packets", "tx_bytes", "tx_dropped", "tx_errors")
QUEUE_DROPS, QUEUE_BACKLOG = "qdisc_drops", "qdisc_backlog_bytes"
_SHAPER = "2:"


@dataclass(frozen=True, slots=True)
class LabStatus:
    """A lab and its counters.

    Attributes:
        counters: (node, port) → counter → value; without a port that cannot be read.
        links: (node, port) → the state of its link; without a port that cannot be read.
        processes: how many run inside.
    """

    state: LabState
    counters: Mapping[tuple[str, str], Mapping[str, int]]
    links: Mapping[tuple[str, str], PortLink]
    processes: int

    def to_json(self) -> dict[str, Any]:
        """The same for programs."""
        state, design = self.state, self.state.design
        return {
            "id": state.lab_id,
            "phase": state.phase,
            "topology": state.topology,
            "digest": state.digest,
            "created": state.created,
            "belongs_to": {"user": state.belongs_to.uid, "service": state.belongs_to.service},
            "tester_limited": state.limited,
            "versions": dict(state.versions),
            "processes": self.processes,
            "nodes": [self._node(node) for node in design.nodes],
            "links": [[str(end) for end in cable] for cable in design.cables],
        }

    def _node(self, node: Node) -> dict[str, Any]:
        ports = [
            {
                "name": port.name,
                "device": port.device,
                "mac": port.mac,
                "mtu": port.mtu,
                "peer": str(port.peer),
                "link": self.links.get((node.name, port.name)),
                "addresses": [*port.local, *port.addresses],
                "shaping": dataclasses.asdict(port.shaping) if port.shaping else None,
                "counters": dict(self.counters.get((node.name, port.name), {})),
            }
            for port in node.ports
        ]
        seed = {"hash_seed": node.hash_seed} if node.hash_seed else {}
        return {"name": node.name, "kind": node.kind, "namespace": node.namespace, "ports": ports, **seed}


def describe(state: LabState) -> LabStatus:
    """Look at a lab; what cannot be read (without root, or incomplete) is left out."""
    counters: dict[tuple[str, str], Mapping[str, int]] = {}
    links: dict[tuple[str, str], PortLink] = {}
    for node in state.design.nodes:
        known = device_counters(node.namespace)
        if node.kind == OVS:
            for device, dropped in _socket_drops(node.namespace).items():
                known.get(device, {})[SOCKET_DROPS] = dropped
        counters |= {(node.name, port.name): known[port.device] for port in node.ports if port.device in known}
        of_device = links_of(node)
        links |= {(node.name, port.name): of_device[port.device] for port in node.ports if port.device in of_device}
    return LabStatus(state, counters, links, len(processes_in(node.namespace for node in state.design.nodes)))


def device_counters(namespace: str) -> dict[str, dict[str, int]]:
    """Device → counter → value in a namespace; empty if it cannot be entered."""
    found: dict[str, dict[str, int]] = {}
    for link in listed(CommandBatch(("ip", "-n", namespace, "-s", "-json", "link"))):
        both = link.get("stats64", {})
        values = {f"{way}_{name}": value for way in ("rx", "tx") for name, value in both.get(way, {}).items()}
        found[link["ifname"]] = {name: values[name] for name in COUNTERS if name in values}
    for qdisc in listed(CommandBatch(("tc", "-n", namespace, "-s", "-json", "qdisc", "show"))):
        if qdisc.get("handle") == _SHAPER and qdisc.get("dev") in found:
            found[qdisc["dev"]] |= {QUEUE_DROPS: qdisc.get("drops", 0), QUEUE_BACKLOG: qdisc.get("backlog", 0)}
    return found


def _socket_drops(namespace: str) -> Mapping[str, int]:
    try:
        sockets = packet_sockets([namespace])
    except OSError:
        return {}
    found = {}
    for device, sock in sockets.items():
        with sock:
            found[device] = drops(sock)
    return found
