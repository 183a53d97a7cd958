"""The registry of transports: what other rooms need to know about each without loading it.

To add a transport: describe it here, implement it in `agents/annexes/<name>/`, name it in emulator/plugins.py, and
document it.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from emulator.errors import PlanError
from emulator.option import Level, option
from emulator.roce.constants import DEFAULT_MESSAGE_BYTES, PATH_MTUS, UDP_PORT
from emulator.roce.options import NCCL_TIMEOUT, RoceOptions, TextOptions, facts_of, number

AUTO, OFF, ALL = "auto", "off", "all"


@dataclass(frozen=True, slots=True)
class VerbsOptions(TextOptions):
    """How the verbs transport behaves."""

    GROUP = "verbs transport"
    verbs_device: str = option("RDMA device", default=AUTO, metavar="NAME", unset="the one with the rank's address")
    gid_index: int = number(
        -1, -1, 1023, "index in the device's GID table", unset="the one of the rank's address", level=Level.EXPERT
    )
    software_nic: str = option(
        "addresses of ranks played by the software NIC, or all", default=OFF, metavar="A,B", unset="none"
    )
    path_mtu: int = option(
        "payload of a full packet, bytes", default=1024, choices=tuple(map(str, PATH_MTUS)), unit="bytes"
    )
    ring_slots: int = number(16, 1, 128, "messages that a peer may have in flight to a rank", level=Level.EXPERT)
    qp_timeout: int = number(
        14, 1, 31, "t (1 to 31) of the ACK timeout 4.096 µs · 2^t; nccl = 20", "T", words={"nccl": NCCL_TIMEOUT}
    )
    retry_count: int = number(7, 0, 7, "retries before the transfer fails")
    dscp: int = number(26, 0, 63, "DSCP of data")

    def __post_init__(self) -> None:
        TextOptions.__post_init__(self)
        if self.software_nic not in (OFF, ALL):
            for address in self.software_nic.split(","):
                try:
                    ipaddress.ip_address(address)
                except ValueError:
                    raise PlanError(
                        f"--software-nic {address[:40]!r}: numeric IP addresses separated by commas are needed, or all"
                    ) from None

    @property
    def device_name(self) -> str:
        """The device that must be used; "": any."""
        return "" if self.verbs_device == AUTO else self.verbs_device

    @property
    def gid_index_or_none(self) -> int | None:
        """The index that must be used; None: any."""
        return None if self.gid_index < 0 else self.gid_index

    @property
    def traffic_class(self) -> int:
        """TOS or traffic class of all packets."""
        return self.dscp << 2

    def is_software(self, host: str) -> bool:
        """Whether the software NIC plays the rank at an address."""
        if self.software_nic in (OFF, ALL):
            return self.software_nic == ALL
        return ipaddress.ip_address(host) in map(ipaddress.ip_address, self.software_nic.split(","))

    def described(self, port_rates_bps: Iterable[int | None] = ()) -> Mapping[str, tuple[str | int | float, str]]:
        """Effective values for the record: name → (value, unit)."""
        described: dict[str, tuple[str | int | float, str]] = {
            name: (getattr(self, name), facts.unit) for name, facts in VERBS_OPTIONS.items()
        }
        described["timeout_ns"] = (4096 << self.qp_timeout, "ns")
        return described


VERBS_OPTIONS = facts_of(VerbsOptions)

TransportOptions: TypeAlias = RoceOptions | VerbsOptions


@dataclass(frozen=True, slots=True)
class TransportFacts:
    """What the controller and the planner know about a transport.

    Attributes:
        name: on the command line, in topologies and run specs.
        title: name in reports.
        message_bytes: default maximum payload of a message.
        options: type of its options; None: message_bytes is its only one.
        is_rocev2: its packets are those of RoCEv2, whoever makes them.
        is_paced: it enforces a rate cap per port, and needs to know which ranks share a port.
        needs_device: it does not run on every host, so a host is not calibrated for it.
        listens_at: port of all its ends; None: the system chooses them.
        is_routed_by_flow: the UDP source ports of its flows are known in advance, so a plan can follow ECMP.
    """

    name: str
    title: str
    message_bytes: int
    options: type[TransportOptions] | None = None
    is_rocev2: bool = False
    is_paced: bool = False
    listens_at: int | None = None
    is_routed_by_flow: bool = False
    needs_device: bool = False


ROCE = TransportFacts(
    "roce",
    "RoCEv2 over UDP",
    message_bytes=DEFAULT_MESSAGE_BYTES,
    options=RoceOptions,
    is_rocev2=True,
    is_paced=True,
    listens_at=UDP_PORT,
    is_routed_by_flow=True,
)
ZMQ = TransportFacts("zmq", "ZeroMQ over TCP", message_bytes=1 << 20)
VERBS = TransportFacts(
    "verbs",
    "RoCEv2 of RDMA devices",
    message_bytes=DEFAULT_MESSAGE_BYTES,
    options=VerbsOptions,
    is_rocev2=True,
    needs_device=True,
)

REGISTRY: Mapping[str, TransportFacts] = {one.name: one for one in (ROCE, ZMQ, VERBS)}
"""By name; the first is the default."""
TRANSPORTS = tuple(REGISTRY)
LISTED = f"{', '.join(TRANSPORTS[:-1])} or {TRANSPORTS[-1]}"
EVERYWHERE = tuple(one.name for one in REGISTRY.values() if not one.needs_device)
"""Transports that run on every host."""
PACED = tuple(one.name for one in REGISTRY.values() if one.is_paced)
DEFAULT_TRANSPORT = TRANSPORTS[0]


def transport_named(name: str) -> TransportFacts:
    """Facts about a transport.

    Raises:
        PlanError: there is no such transport.
    """
    if name not in REGISTRY:
        raise PlanError(f"there is no transport {name!r}; choose from {', '.join(REGISTRY)}")
    return REGISTRY[name]
