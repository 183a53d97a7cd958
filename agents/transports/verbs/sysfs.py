"""RDMA devices as Linux lists them: which one has an address, and what it counts.

Source: Linux, Documentation/ABI/stable/sysfs-class-infiniband.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from emulator.errors import HostError
from emulator.host.rdma import DEVICES, require_device
from emulator.roce.connection.gid import gid_of

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
