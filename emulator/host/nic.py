"""Facts about the interfaces of this host, from the kernel and its driver, in the network namespace of this process.

Files under /sys are no alternative for addresses and speeds: they show the namespace in which /sys was mounted.
"""

from __future__ import annotations

import array
import fcntl
import socket
import struct
from pathlib import Path

from emulator.errors import HostError
from emulator.host.nic_facts import NicFacts

_SIOCGIFMTU, _SIOCETHTOOL = 0x8921, 0x8946  # linux/sockios.h
_GET_SETTINGS, _GET_DRIVER = 0x1, 0x3  # linux/ethtool.h
_SETTINGS_BYTES, _DRIVER_BYTES = 44, 196  # struct ethtool_cmd, struct ethtool_drvinfo
_UNKNOWN_MBPS = (0, 0xFFFF, 0xFFFFFFFF)
_REQUEST = struct.Struct("16sP16x")  # struct ifreq
_UNKNOWN_TEXTS = ("", "N/A")
_BITS_PER_MEGABIT = 1_000_000


def nic_facts(interface: str) -> NicFacts:
    """Driver, firmware, speed and MTU of an interface; None for what is not known."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        driver = _ethtool(control, interface, _GET_DRIVER, _DRIVER_BYTES)
        settings = _ethtool(control, interface, _GET_SETTINGS, _SETTINGS_BYTES)
        return facts_in(interface, driver=driver, settings=settings, mtu=_mtu(control, interface))


def facts_in(interface: str, *, driver: bytes | None, settings: bytes | None, mtu: int | None) -> NicFacts:
    """The facts in the kernel's answers, struct ethtool_drvinfo and ethtool_cmd; None: there was no answer."""
    speed_bps = _speed_bps(settings)
    return NicFacts(interface, driver=_text(driver, 4), firmware=_text(driver, 68), speed_bps=speed_bps, mtu=mtu)


def _ethtool(control: socket.socket, interface: str, command: int, size: int) -> bytes | None:
    answer = array.array("B", struct.pack("I", command).ljust(size, b"\0"))
    request = _REQUEST.pack(interface.encode(), answer.buffer_info()[0])
    try:
        fcntl.ioctl(control, _SIOCETHTOOL, request)
    except OSError:
        return None  # no such interface, or the driver does not support it
    return answer.tobytes()


def _text(driver: bytes | None, offset: int) -> str | None:
    """A text field of 32 bytes in struct ethtool_drvinfo."""
    if driver is None:
        return None
    text = driver[offset : offset + 32].partition(b"\0")[0].decode(errors="replace").strip()
    return None if text in _UNKNOWN_TEXTS else text


def _speed_bps(settings: bytes | None) -> int | None:
    if settings is None:
        return None
    low, high = struct.unpack_from("H", settings, 12)[0], struct.unpack_from("H", settings, 28)[0]
    mbps = high << 16 | low
    return None if mbps in _UNKNOWN_MBPS else mbps * _BITS_PER_MEGABIT


def _mtu(control: socket.socket, interface: str) -> int | None:
    try:
        answer = fcntl.ioctl(control, _SIOCGIFMTU, struct.pack("16si20x", interface.encode(), 0))
    except OSError:
        return None
    mtu: int = struct.unpack_from("i", answer, 16)[0]
    return mtu


DEVICES = Path("/sys/class/infiniband")


def has_devices(root: Path = DEVICES) -> bool:
    """Whether this host has any RDMA device."""
    return root.is_dir() and any(root.iterdir())


def require_device(root: Path = DEVICES) -> None:
    """Check that this host has an RDMA device.

    Raises:
        HostError: it has none; the message says what to do.
    """
    if not has_devices(root):
        raise HostError(
            "this host has no RDMA device: install rdma-core and load the driver of the NIC, or create a software "
            "device (`rdma link add rxe0 type rxe netdev INTERFACE`), or use the software NIC (--software-nic)"
        )
