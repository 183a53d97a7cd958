"""Options of the verbs transport, as text and as values."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from emulator.errors import PlanError
from emulator.roce.constants import PATH_MTUS
from emulator.roce.options import NCCL_TIMEOUT, OptionFacts, TextOptions, facts_of

AUTO, OFF, ALL = "auto", "off", "all"


def _number(default: int, least: int, most: int, summary: str, metavar: str = "N", **more: Any) -> Any:
    facts = OptionFacts(summary=summary, metavar=metavar, least=least, most=most, **more)
    return field(default=default, metadata={"facts": facts})


def _text(default: str, summary: str, metavar: str, **more: Any) -> Any:
    return field(default=default, metadata={"facts": OptionFacts(summary=summary, metavar=metavar, **more)})


@dataclass(frozen=True, slots=True)
class VerbsOptions(TextOptions):
    """How the transport behaves.

    Attributes:
        verbs_device: RDMA device of every host; auto: the one with the rank's address.
        gid_index: in its GID table; -1: the one of the rank's address.
        software_nic: addresses of ranks that the software NIC plays instead, separated by commas; off or all.
        path_mtu: payload of a full packet, bytes.
        ring_slots: messages that a peer may have on their way to this end.
        qp_timeout, retry_count: as of the RoCE transport.
        dscp: of all packets.
    """

    TRANSPORT = "verbs"
    verbs_device: str = _text(AUTO, "RDMA device", "NAME", unset="the one with the rank's address")
    gid_index: int = _number(-1, -1, 1023, "index in the device's GID table", unset="the one of the rank's address")
    software_nic: str = _text(OFF, "addresses of ranks played by the software NIC, or all", "A,B", unset="none")
    path_mtu: int = field(
        default=1024,
        metadata={
            "facts": OptionFacts(
                summary="payload of a full packet, bytes", choices=tuple(map(str, PATH_MTUS)), unit="bytes"
            )
        },
    )
    ring_slots: int = _number(16, 1, 128, "messages that a peer may have in flight to a rank")
    qp_timeout: int = _number(
        14, 1, 31, "t (1 to 31) of the ACK timeout 4.096 µs · 2^t; nccl = 20", "T", words={"nccl": NCCL_TIMEOUT}
    )
    retry_count: int = _number(7, 0, 7, "retries before the transfer fails")
    dscp: int = _number(26, 0, 63, "DSCP of data")

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
