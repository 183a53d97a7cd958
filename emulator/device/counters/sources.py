"""Reads counters of interfaces of this host, with pause frames, and of a real switch over gNMI (OpenConfig).

pygnmi is an optional dependency, imported on use (`pip install 'charkha[gnmi]'`).
"""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from emulator.device.counters.counters import CounterReading
from emulator.device.counters.gnmi_stream import DISCARDED, GnmiStream, count_in, key_in
from emulator.errors import HostError
from emulator.host import iproute
from emulator.host.tools import CommandBatch, attempt
from emulator.topology.model import Topology
from emulator.topology.network import ON_CHANGE, GnmiTarget
from emulator.units import parse_duration

SYSFS = Path("/sys/class/net")
_COUNTERS = ("rx_packets", "rx_bytes", "rx_dropped", "rx_errors", "tx_packets", "tx_bytes", "tx_dropped", "tx_errors")
_ETHTOOL_S = 5.0
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
        root: where the kernel has them.
    """

    def __init__(self, interfaces: Sequence[HostInterface], *, root: Path = SYSFS) -> None:
        self._interfaces, self._root = interfaces, root
        self._with_pause: list[HostInterface] = []

    def open(self) -> None:
        """See CounterSource. Interfaces without counters of pause frames are not queried for them again."""
        self._with_pause = [one for one in self._interfaces if pause_counters(one.device)]

    def read(self) -> list[CounterReading]:
        """See CounterSource."""
        return [*self._statistics(), *self._pauses()]

    def read_queues(self) -> list[CounterReading]:
        """See CounterSource."""
        return []

    def close(self) -> None:
        """See CounterSource."""

    def _statistics(self) -> Iterator[CounterReading]:
        for one in self._interfaces:
            folder = self._root / one.device / "statistics"
            try:
                values = {name: int((folder / name).read_text()) for name in _COUNTERS}
            except OSError as error:
                raise HostError(f"interface {one.device} of this host is gone ({error.strerror})") from error
            yield from (CounterReading(one.host, one.name, name, value) for name, value in values.items())

    def _pauses(self) -> Iterator[CounterReading]:
        for one in self._with_pause:
            for counter, value in pause_counters(one.device).items():
                yield CounterReading(one.host, one.name, counter, value)


def interfaces_here(
    topology: Topology, *, holders: Callable[[], Mapping[str, str]] = iproute.holders
) -> list[HostInterface]:
    """Interfaces of the topology whose addresses this host has, without loopback; `holders`: see `iproute.holders`."""
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
    asked = (("ethtool", "-I", "-a", device), ("ethtool", "-S", device))
    standard, of_driver = (attempt(CommandBatch(words, limit_s=_ETHTOOL_S)) for words in asked)
    return parse_pauses(standard, of_driver)


def parse_pauses(standard: str, of_driver: str) -> Mapping[str, int]:
    """Pause frames in the output of `ethtool -I -a` and `ethtool -S`."""
    found = {f"pause_{way}": int(value) for way, value in _STANDARD.findall(standard)}
    return found or {name: int(value) for name, value in _OF_DRIVER.findall(of_driver)}


PATH = "openconfig-interfaces:interfaces/interface/state/counters"
_GNMI_COUNTERS = {
    "in-pkts": "rx_packets",
    "in-octets": "rx_bytes",
    "in-discards": "rx_dropped",
    "in-errors": "rx_errors",
    "out-pkts": "tx_packets",
    "out-octets": "tx_bytes",
    "out-discards": "tx_dropped",
    "out-errors": "tx_errors",
}
"""Leaf of the counters in openconfig-interfaces → name in the run folder."""
_TIMEOUT_S = 5


class GnmiCounters:
    """Implements CounterSource: every reading is one Get of the counters of all interfaces; queues are streamed.

    Args:
        target: the switch in the topology; user name and password come from the environment.
    """

    def __init__(self, target: GnmiTarget) -> None:
        self._target = target
        self._client: Any = None
        self._stream: GnmiStream | None = None
        self._discarded: dict[str, int] = {}  # the most that was read, by interface

    def open(self) -> None:
        """See CounterSource."""
        try:
            from pygnmi.client import gNMIclient
        except ImportError as error:
            raise HostError("gNMI needs pygnmi: pip install 'charkha[gnmi]'") from error
        target = self._target
        host, _, port = target.address.rpartition(":")
        username, password = _secret(target.username_env), _secret(target.password_env)
        try:
            self._client = gNMIclient(
                target=(host.strip("[]"), port),
                username=username,
                password=password,
                insecure=target.insecure,
                path_cert=None if target.insecure else target.ca or _trusted(),  # without, it trusts any certificate
                gnmi_timeout=_TIMEOUT_S,
            )
            self._client.connect(timeout=_TIMEOUT_S)
            if target.queues is not None:
                self._stream = GnmiStream(
                    target.device,
                    self._client._gNMIclient__stub,  # its own subscriptions print what a switch refuses
                    metadata=[("username", username), ("password", password)],
                    period_ns=None if target.queues == ON_CHANGE else parse_duration(target.queues),
                )
                self._stream.open()
        except HostError:
            self.close()
            raise
        except Exception as error:  # pygnmi raises errors of its own, of grpc and of ssl
            raise self._no_answer(error) from error

    def read(self) -> Sequence[CounterReading]:
        """See CounterSource."""
        try:
            answer = self._client.get(path=[PATH], datatype="state", encoding="json_ietf")
            found = list(readings(self._target.device, answer or {}))
        except Exception as error:  # as above
            raise self._no_answer(error) from error
        streamed: dict[tuple[str, str, str], CounterReading] = {}
        with suppress(HostError):  # read_queues() says so; without the stream, the switch still answers
            streamed = {one[:3]: one for one in self.read_queues()}
        read = {one[:3]: one for one in self._growing(found)}
        return list((streamed | read).values())

    def read_queues(self) -> list[CounterReading]:
        """See CounterSource: what the switch has streamed."""
        return list(self._growing(self._stream.read())) if self._stream is not None else []

    def _growing(self, found: Iterable[CounterReading]) -> Iterator[CounterReading]:
        """A Get and the stream may be of different age: what was discarded never becomes less."""
        for one in found:
            if self._stream is None or one.counter != DISCARDED:
                yield one
                continue
            self._discarded[one.interface] = max(one.value, self._discarded.get(one.interface, 0))
            yield one._replace(value=self._discarded[one.interface])

    def close(self) -> None:
        """See CounterSource."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None
        if self._client is not None:
            self._client.close()
            self._client = None

    def _no_answer(self, error: Exception) -> HostError:
        reason = " ".join(str(error).split()) or type(error).__name__
        return HostError(f"{self._target.device} does not answer gNMI at {self._target.address} ({reason[:200]})")


def readings(device: str, answer: Mapping[str, Any]) -> Iterator[CounterReading]:
    """The counters in the response to a Get, as pygnmi decodes it; unknown leaves are ignored.

    Raises:
        ValueError: a value is no count.
    """
    for notification in answer.get("notification", ()):
        for update in notification.get("update", ()):
            interface = key_in(f"{notification.get('prefix') or ''}/{update.get('path') or ''}", "interface[name=")
            values = update.get("val")
            if interface is None or not isinstance(values, Mapping):
                continue
            for leaf, value in values.items():
                counter = _GNMI_COUNTERS.get(leaf.rpartition(":")[2])
                if counter is not None:
                    yield CounterReading(device, interface, counter, count_in(leaf, value))


def _trusted() -> str:
    """The file of the authorities that this host trusts."""
    paths = ssl.get_default_verify_paths()
    found = next((one for one in (paths.cafile, *_BUNDLES) if one is not None and Path(one).is_file()), None)
    if found is None:
        raise HostError("this host has no file of authorities to trust: write `ca` in dut.gnmi, or `insecure: true`")
    return found


_BUNDLES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem")


def _secret(variable: str | None) -> str:
    if variable is None:
        return ""
    if variable not in os.environ:
        raise HostError(f"environment variable {variable} is not set: export it; the topology uses it for gNMI")
    return os.environ[variable]
