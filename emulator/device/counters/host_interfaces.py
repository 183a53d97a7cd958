"""Reads the counters of interfaces of this host, with their pause frames as ethtool reports them."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

from emulator.device.counters.counters import CounterReading
from emulator.errors import HostError
from emulator.host.iproute import holders
from emulator.topology.model import Topology

SYSFS = Path("/sys/class/net")
_COUNTERS = ("rx_packets", "rx_bytes", "rx_dropped", "rx_errors", "tx_packets", "tx_bytes", "tx_dropped", "tx_errors")
_STANDARD = re.compile(r"^[ \t]*(rx|tx)_pause_frames: (\d+)$", re.MULTILINE)
_OF_DRIVER = re.compile(r"^[ \t]*((?:rx|tx)_\w{0,60}?pause\w{0,60}): (\d+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class HostInterface:
    """An interface: its host and name in the topology, and its device name on this host."""

    host: str
    name: str
    device: str


class HostInterfaceCounters:
    """Implements CounterSource for interfaces of this host.

    Args:
        interfaces: whose counters are read.
    """

    def __init__(self, interfaces: Sequence[HostInterface]) -> None:
        self._interfaces = interfaces
        self._with_pause: list[HostInterface] = []

    def open(self) -> None:
        """See CounterSource. Interfaces without counters of pause frames are not queried for them again."""
        self._with_pause = [one for one in self._interfaces if pause_counters(one.device)]

    def read(self) -> list[CounterReading]:
        """See CounterSource."""
        return [*self._statistics(), *self._pauses()]

    def close(self) -> None:
        """See CounterSource."""

    def _statistics(self) -> Iterator[CounterReading]:
        for one in self._interfaces:
            folder = SYSFS / one.device / "statistics"
            try:
                values = {name: int((folder / name).read_text()) for name in _COUNTERS}
            except OSError as error:
                raise HostError(f"interface {one.device} of this host is gone ({error.strerror})") from error
            yield from (CounterReading(one.host, one.name, name, value) for name, value in values.items())

    def _pauses(self) -> Iterator[CounterReading]:
        for one in self._with_pause:
            for counter, value in pause_counters(one.device).items():
                yield CounterReading(one.host, one.name, counter, value)


def interfaces_here(topology: Topology) -> list[HostInterface]:
    """Interfaces of the topology whose addresses this host has, without loopback."""
    places = {topology.address_of(rank): rank for rank in range(topology.endpoints)}
    wanted = {address for address in places if not ip_address(address).is_loopback}
    if not wanted:
        return []
    try:
        held = holders()
    except HostError:  # no ip command
        return []
    found = {
        HostInterface(topology.host_of(places[one]).name, topology.interface_of(places[one]).name, held[one]): None
        for one in wanted
        if one in held
    }
    return sorted(found, key=lambda one: (one.host, one.name))


def pause_counters(device: str) -> Mapping[str, int]:
    """Pause frames of an interface: the standard counters (IEEE 802.3), else those with names of the driver.

    Empty if the driver has none, or if ethtool is not installed.
    """
    return parse_pauses(_printed("-I", "-a", device), _printed("-S", device))


def parse_pauses(standard: str, of_driver: str) -> Mapping[str, int]:
    """Pause frames in the output of `ethtool -I -a` and `ethtool -S`."""
    found = {f"pause_{way}": int(value) for way, value in _STANDARD.findall(standard)}
    return found or {name: int(value) for name, value in _OF_DRIVER.findall(of_driver)}


def _printed(*words: str) -> str:
    try:
        return subprocess.run(("ethtool", *words), capture_output=True, text=True, check=False, timeout=5).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
