"""Reads the counters of a real switch over gNMI, with the interface model of OpenConfig.

pygnmi is an optional dependency, imported on use (`pip install 'charkha[gnmi]'`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from emulator.device.counters.counters import CounterReading
from emulator.errors import HostError
from emulator.topology.network import GnmiTarget

PATH = "openconfig-interfaces:interfaces/interface/state/counters"
_COUNTERS = {
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
    """Implements CounterSource: every reading is one Get of the counters of all interfaces.

    Args:
        target: the switch in the topology; user name and password come from the environment.
    """

    def __init__(self, target: GnmiTarget) -> None:
        self._target = target
        self._client: Any = None

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
                path_root=target.ca,
                gnmi_timeout=_TIMEOUT_S,
            )
            self._client.connect(timeout=_TIMEOUT_S)
        except Exception as error:  # pygnmi raises errors of its own, of grpc and of ssl
            raise self._no_answer(error) from error

    def read(self) -> Sequence[CounterReading]:
        """See CounterSource."""
        try:
            answer = self._client.get(path=[PATH], datatype="state", encoding="json_ietf")
        except Exception as error:  # as above
            raise self._no_answer(error) from error
        return list(readings(self._target.device, answer or {}))

    def close(self) -> None:
        """See CounterSource."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _no_answer(self, error: Exception) -> HostError:
        reason = " ".join(str(error).split()) or type(error).__name__
        return HostError(f"{self._target.device} does not answer gNMI at {self._target.address} ({reason[:200]})")


def readings(device: str, answer: Mapping[str, Any]) -> Iterator[CounterReading]:
    """The counters in the response to a Get, as pygnmi decodes it; unknown leaves are ignored."""
    for notification in answer.get("notification", ()):
        for update in notification.get("update", ()):
            interface = _interface(f"{notification.get('prefix') or ''}/{update.get('path') or ''}")
            values = update.get("val")
            if interface is None or not isinstance(values, Mapping):
                continue
            for leaf, value in values.items():
                counter = _COUNTERS.get(leaf.rpartition(":")[2])
                if counter is not None:
                    yield CounterReading(device, interface, counter, int(value))


def _interface(path: str) -> str | None:
    """The key in `…/interface[name=Ethernet0]/…`."""
    _, found, rest = path.partition("interface[name=")
    return rest.partition("]")[0] if found else None


def _secret(variable: str | None) -> str:
    if variable is None:
        return ""
    if variable not in os.environ:
        raise HostError(f"environment variable {variable} is not set: export it; the topology uses it for gNMI")
    return os.environ[variable]
