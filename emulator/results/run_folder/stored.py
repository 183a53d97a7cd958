"""What a manifest stores of a topology, a device and a calibration, as types: the check of a stored run at its load.

The manifest keeps them as the mappings that they were written as; unknown keys, from a later release, are ignored.
Manifests of older format versions are migrated when they are read; files are never edited.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from msgspec import Meta, Struct

from emulator.errors import ResultError

Count = Annotated[int, Meta(ge=0, le=(1 << 53) - 1)]
Index = Annotated[int, Meta(ge=0, le=(1 << 31) - 1)]
TimeNs = Annotated[int, Meta(ge=-(1 << 62), le=1 << 62)]
"""Two of them have a difference of 64 bits."""
Positive = Annotated[float, Meta(gt=0)]


class _Interface(Struct, frozen=True):
    name: str | None = None
    rate_bps: Count | None = None
    mtu: Count | None = None


class _Domain(Struct, frozen=True):
    rate_bps: Count
    latency_ns: Count


class _Host(Struct, frozen=True):
    name: str | None = None
    rate_bps: Count | None = None
    interfaces: tuple[_Interface, ...] | None = None
    storage: bool = False
    domain: _Domain | None = None


class _Switch(Struct, frozen=True):
    name: str
    kind: str | None = None


class _StoredLink(Struct, frozen=True):
    ends: tuple[str, str]
    rate_bps: Count | None = None
    mtu: Count | None = None
    latency_ns: Count | None = None


class _Network(Struct, frozen=True):
    switches: tuple[_Switch, ...] = ()
    links: tuple[_StoredLink, ...] = ()
    routes: tuple[Mapping[str, Any], ...] = ()
    ecmp_seed: int | None = None


class StoredTopology(Struct, frozen=True):
    """Hosts, the place of every rank, the network; all of it can be missing in runs of earlier releases.

    Raises:
        ValueError: a place that is not in the table of hosts, or of interfaces of its host; an address that is none.
    """

    name: str | None = None
    source: str | None = None
    digest: str | None = None
    hosts: tuple[_Host, ...] = ()
    host_index: tuple[Index, ...] = ()
    interface_index: tuple[Index, ...] = ()
    addresses: tuple[str, ...] = ()
    network: _Network | None = None
    transport: Mapping[str, Any] = {}
    lab: Mapping[str, Any] = {}

    def __post_init__(self) -> None:
        for address in self.addresses:
            ip_address(address)
        if self.interface_index and len(self.interface_index) != len(self.host_index):
            raise ValueError(f"has {len(self.host_index)} host_index and {len(self.interface_index)} interface_index")
        for rank, host in enumerate(self.host_index):
            if self.hosts and host >= len(self.hosts):
                raise ValueError(f"host_index[{rank}] is {host}, but there are {len(self.hosts)} hosts")
        for rank, (host, number) in enumerate(zip(self.host_index, self.interface_index, strict=False)):
            interfaces = self.hosts[host].interfaces if self.hosts else None
            if interfaces and number >= len(interfaces):
                raise ValueError(f"interface_index[{rank}] is {number}, but its host has {len(interfaces)} interfaces")
        if self.network is not None and any(host.name is None for host in self.hosts):
            raise ValueError("has a network, and a host without a name")


class _Rule(Struct, frozen=True):
    name: str
    action: str
    at: str | None = None
    ports: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    start_s: float | None = None
    end_s: float | None = None
    started_s: float | None = None
    ended_s: float | None = None


class _Profile(Struct, frozen=True):
    name: str | None = None
    digest: str | None = None
    path: str | None = None
    description: str | None = None
    begun_ns: int | None = None
    failure: str | None = None
    rules: tuple[_Rule, ...] = ()


class _Counters(Struct, frozen=True):
    period_s: Positive | None = None
    queues_period_s: Positive | None = None
    problems: tuple[str, ...] = ()


class StoredDut(Struct, frozen=True):
    """The device under test; empty if the topology named none."""

    name: str | None = None
    kind: str | None = None
    vendor: str | None = None
    model: str | None = None
    firmware: str | None = None
    nodes: tuple[str, ...] = ()
    counters: _Counters | None = None
    profile: _Profile | None = None


class _ClosureTest(Struct, frozen=True):
    name: str
    inside: bool | None


class StoredCalibration(Struct, frozen=True):
    """What the tester did without a device; empty if it was not calibrated.

    Raises:
        ValueError: a date that is none, or closure tests without one.
    """

    created: str | None = None
    closure: tuple[_ClosureTest, ...] = ()
    rates: tuple[tuple[Annotated[int, Meta(ge=1, le=1 << 53)], Positive], ...] | None = None
    step_ns: Positive | None = None
    timer_ns: Count | None = None

    def __post_init__(self) -> None:
        if self.created is not None:
            datetime.fromisoformat(self.created).timestamp()
        elif self.closure:
            raise ValueError("has closure tests, but no date")


class _Nic(Struct, frozen=True):
    interface: str = ""
    driver: str | None = None
    firmware: str | None = None
    speed_bps: Count | None = None
    mtu: Count | None = None


class _AgentHost(Struct, frozen=True):
    nics: tuple[_Nic, ...] = ()


class StoredManifest(Struct, frozen=True):
    """The parts of a manifest that other rooms have written.

    Raises:
        ValueError: a date that is none.
    """

    created: str
    topology: StoredTopology = StoredTopology()
    dut: StoredDut = StoredDut()
    calibration: StoredCalibration = StoredCalibration()
    hosts: tuple[_AgentHost, ...] = ()

    def __post_init__(self) -> None:
        datetime.fromisoformat(self.created).timestamp()


Document: TypeAlias = dict[str, Any]


def _keep_times_until_done(document: Document) -> Document:
    """Version 2 times collectives until the last arrival; what was reported of older runs stays true of them."""
    return document | {"format_version": 2, "cct_until": "last_done"}


MIGRATIONS: Mapping[int, Callable[[Document], Document]] = {1: _keep_times_until_done}
"""Format version → function that turns such a manifest into one of the next version."""


def migrated(
    document: Document,
    *,
    path: Path,
    newest: int,
    migrations: Mapping[int, Callable[[Document], Document]] = MIGRATIONS,
) -> Document:
    """The manifest in the newest format version.

    Args:
        document: as stored.
        path: for errors.
        newest: version to migrate to.
        migrations: see MIGRATIONS.

    Raises:
        ResultError: it has no version, a newer one, or one that never existed.
    """
    version = document.get("format_version")
    if not isinstance(version, int) or isinstance(version, bool):
        raise ResultError("is not the manifest of a run (no format_version)", path=path)
    if version > newest:
        problem = f"has format version {version}, but this Charkha reads up to {newest}: use a newer one"
        raise ResultError(problem, path=path)
    for step in range(version, newest):
        if step not in migrations:
            raise ResultError(f"has format version {version}, which never existed", path=path)
        document = migrations[step](document)
    if version < 1 and version not in migrations:
        raise ResultError(f"has format version {version}, which never existed", path=path)
    return document
