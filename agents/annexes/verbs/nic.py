"""What the transport needs of a NIC: queue pairs that exchange their facts, then WRITE with immediate data.

Linux lists RDMA devices: which one has an address, and what it counts. Source: Linux,
Documentation/ABI/stable/sysfs-class-infiniband.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Protocol

import msgspec
from msgspec import Meta

from emulator.errors import HostError
from emulator.host.nic import DEVICES, require_device
from emulator.roce.connection.qp_facts import gid_of

if TYPE_CHECKING:
    from agents.nic.channel import QueuePairOwner
    from emulator.control.parameter import Parameter
    from emulator.roce.connection.messages import Message


_Word24 = Annotated[int, Meta(ge=0, lt=1 << 24)]


class VerbsQpRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One end of a queue pair, as the other end must know it.

    Attributes:
        qpn, psn: its number, and the PSN of its first packet.
        rkey, address: of the ring that the other end writes to.
        slots, slot_bytes: of that ring.
        path_mtu: payload of a full packet, bytes.
    """

    qpn: _Word24
    psn: _Word24
    rkey: Annotated[int, Meta(ge=0, lt=1 << 32)]
    address: Annotated[int, Meta(ge=0)]
    slots: Annotated[int, Meta(ge=1, le=1 << 16)]
    slot_bytes: Annotated[int, Meta(ge=1, le=1 << 30)]
    path_mtu: Annotated[int, Meta(ge=256, le=4096)]


class Qp(Protocol):
    """A queue pair, and its ring."""

    @property
    def record(self) -> VerbsQpRecord:
        """What the peer must know."""
        ...

    def connect(self, peer: VerbsQpRecord, host: str) -> None:
        """Set the other end: afterwards it receives and may send.

        Raises:
            HostError: the device refuses.
        """
        ...

    def post(self, messages: Sequence[Message]) -> None:
        """Send WRITEs with immediate data."""
        ...

    def close(self) -> None:
        """Stop at once; idempotent."""
        ...


class Nic(Protocol):
    """The NIC of an address. It calls the owners of its queue pairs from the event loop."""

    def create(self, owner: QueuePairOwner) -> Qp:
        """Create a queue pair.

        Raises:
            HostError: a limit of the device or of this host is reached.
        """
        ...

    def poll(self) -> None:
        """Deliver what has come and has not been delivered."""
        ...

    def facts(self) -> Mapping[str, Parameter]:
        """Facts for the manifest: what it is, where completions are observed, counters of the device."""
        ...

    def close(self) -> None:
        """Stop at once; idempotent."""
        ...


class ReceiveRing(msgspec.Struct, frozen=True):
    """The size of the ring that every peer gets."""

    slots: int
    slot_bytes: int

    @property
    def bytes(self) -> int:
        """All of it."""
        return self.slots * self.slot_bytes


_ROCE_V2 = "RoCE v2"


@dataclass(frozen=True, slots=True)
class Gid:
    """An entry of a device's GID table for RoCEv2.

    Attributes:
        device: as `ibv_devices` shows it.
        port: of the device.
        index: in the table.
        value: 16 bytes; an IPv4 address is mapped to IPv6.
    """

    device: str
    port: int
    index: int
    value: bytes


def gids(root: Path = DEVICES) -> Iterator[Gid]:
    """All RoCEv2 entries of all devices."""
    for table in sorted(root.glob("*/ports/*/gids")):
        for entry in sorted(table.iterdir(), key=lambda one: int(one.name)):
            try:
                value = bytes.fromhex(entry.read_text().strip().replace(":", ""))
                kind = (table.parent / "gid_attrs" / "types" / entry.name).read_text().strip()
            except OSError:  # an unused entry has no type
                continue
            if kind == _ROCE_V2 and any(value):
                yield Gid(table.parent.parent.parent.name, int(table.parent.name), int(entry.name), value)


def find_gid(host: str, *, device: str, index: int | None, root: Path = DEVICES) -> Gid:
    """The GID of an address.

    Args:
        host: numeric IP address.
        device: the only device to look at; "": any.
        index: in its GID table; None: any.

    Raises:
        HostError: there is none; the message says what to do.
    """
    require_device(root)
    devices = sorted(one.name for one in root.iterdir())
    if device and device not in devices:
        raise HostError(f"this host has no RDMA device {device}; it has {', '.join(devices)}")
    wanted = gid_of(host)
    for one in gids(root):
        if one.value == wanted and device in ("", one.device) and index in (None, one.index):
            return one
    raise HostError(
        f"{device or 'no RDMA device of this host'} {'does not have' if device else 'has'} {host} in its GID table for "
        f"RoCEv2{'' if index is None else f' at index {index}'}: see `rdma link` and `ibv_devinfo -v`"
    )


def hardware_counters(gid: Gid, root: Path = DEVICES) -> dict[str, int]:
    """What the device counts at that port, by the driver's names; empty if it counts nothing."""
    folder = root / gid.device / "ports" / str(gid.port) / "hw_counters"
    counters = {}
    for file in sorted(folder.iterdir()) if folder.is_dir() else ():
        text = file.read_text().strip() if file.name != "lifespan" else ""
        if text.isdecimal():
            counters[file.name] = int(text)
    return counters
