"""Counters of a real switch over gNMI, by OpenConfig's interface model.

pygnmi is imported where it is needed: only those who name a target need it (`pip install 'charkha[gnmi]'`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from emulator.dut.counters import Reading
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
"""Leaf of openconfig-interfaces' counters → our name."""
_ANSWER_S = 5


class GnmiCounters:
    """Implements CounterSource: one Get of all interfaces' counters a reading.

    Args:
        target: as the topology names it; user and password come from the environment.
    """

    def __init__(self, target: GnmiTarget) -> None:
        self._target = target
        self._client: Any = None

    def open(self) -> None:
        """See CounterSource."""
        try:
            from pygnmi.client import gNMIclient
        except ImportError as error:
            raise HostError("gNMI takes pygnmi: pip install 'charkha[gnmi]'") from error
        target = self._target
        host, _, port = target.address.rpartition(":")
        try:
            self._client = gNMIclient(
                target=(host.strip("[]"), port),
                username=_secret(target.username_env),
                password=_secret(target.password_env),
                insecure=target.insecure,
                path_root=target.ca,
                gnmi_timeout=_ANSWER_S,
            )
            self._client.connect(timeout=_ANSWER_S)
        except Exception as error:  # pygnmi raises what grpc, ssl and itself do
            raise self._silent(error) from error

    def read(self) -> Sequence[Reading]:
        """See CounterSource."""
        try:
            answer = self._client.get(path=[PATH], datatype="state", encoding="json_ietf")
        except Exception as error:  # as above
            raise self._silent(error) from error
        return list(readings(self._target.device, answer or {}))

    def close(self) -> None:
        """See CounterSource."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _silent(self, error: Exception) -> HostError:
        reason = " ".join(str(error).split()) or type(error).__name__
        return HostError(f"{self._target.device} does not answer gNMI at {self._target.address} ({reason[:200]})")


def readings(device: str, answer: Mapping[str, Any]) -> Iterator[Reading]:
    """Counters of a Get's answer as pygnmi gives it; leaves that are not there are left out."""
    for notification in answer.get("notification", ()):
        for update in notification.get("update", ()):
            interface = _interface(f"{notification.get('prefix') or ''}/{update.get('path') or ''}")
            values = update.get("val")
            if interface is None or not isinstance(values, Mapping):
                continue
            for leaf, value in values.items():
                counter = _COUNTERS.get(leaf.rpartition(":")[2])
                if counter is not None:
                    yield Reading(device, interface, counter, int(value))


def _interface(path: str) -> str | None:
    """The key in `…/interface[name=Ethernet0]/…`."""
    _, found, rest = path.partition("interface[name=")
    return rest.partition("]")[0] if found else None


def _secret(variable: str | None) -> str:
    if variable is None:
        return ""
    if variable not in os.environ:
        raise HostError(f"the environment lacks {variable}, which the topology names for gNMI")
    return os.environ[variable]
