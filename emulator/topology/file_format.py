"""The keys of a topology file, as types. `json_schema(TopologyFile)` exports them as JSON Schema."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, field

from emulator.flows.perftest_parameters import DEFAULT_PORT
from emulator.schema import Section, require_one_of

Name = Annotated[str, Meta(min_length=1)]
Names = Annotated[tuple[str, ...], Meta(min_length=1)]
Rate = Annotated[str, Meta(description="with its unit: 100Gbit")]
Mtu = Annotated[int, Meta(ge=576, le=65_535, description="bytes of an IP packet")]
End = Annotated[str, Meta(description="node:port")]


class _Port(Section, frozen=True, kw_only=True):
    """What a host with one interface and an entry of `interfaces` have in common."""

    name: Name
    address: Annotated[str, Meta(description="one numeric IP address, shared by all ranks here")] | None = None
    addresses: Annotated[Names, Meta(description="numeric IP addresses, one rank each")] | None = None
    per_rank: Annotated[str, Meta(description="a prefix; every rank gets its own address from it")] | None = None
    rate: Rate | None = None
    mtu: Mtu | None = None


class InterfaceSection(_Port, frozen=True, kw_only=True):
    """An interface of a host that has several."""

    def __post_init__(self) -> None:
        require_one_of(self, "address", "addresses", "per_rank")


class PeerSection(Section, frozen=True, kw_only=True):
    """What flows of a run spec must know of a host that runs nothing of Charkha."""

    port: Annotated[int, Meta(ge=1, le=65_535, description="TCP port of its perftest's exchange")] = DEFAULT_PORT
    exchange: Annotated[str, Meta(description="IP address of the exchange; default: that of its NIC")] | None = None


class DomainSection(Section, frozen=True, kw_only=True):
    """A scale-up domain: what ranks of a host send each other goes through it and never over the network."""

    rate: Annotated[str, Meta(description="of each rank in each direction, with its unit: 450GB/s")]
    latency: Annotated[str, Meta(description="of a transfer, with its unit: 2us")] = "0ns"


class HostSection(_Port, frozen=True, kw_only=True):
    """A host."""

    peer: Annotated[PeerSection, Meta(description="no ranks: flows exchange traffic with its NIC")] | None = None
    interfaces: Annotated[tuple[InterfaceSection, ...], Meta(min_length=1)] | None = None
    slots: Annotated[int, Meta(ge=1, description="most ranks the host takes")] | None = None
    storage: Annotated[bool, Meta(description="stores what ranks write and holds what they read; no ranks")] = False
    domain: Annotated[DomainSection, Meta(description="connects the host's ranks, besides the network")] | None = None

    def __post_init__(self) -> None:
        require_one_of(self, "address", "addresses", "per_rank", "interfaces")
        if self.storage and self.slots is not None:
            raise ValueError("a storage host has no ranks: delete slots")
        if self.peer is not None and self.address is None:
            raise ValueError("a peer has only one address: use the key address")
        if self.peer is not None and self.slots is not None:
            raise ValueError("a peer has no ranks: delete slots")
        if self.domain is not None and (self.storage or self.peer is not None):
            raise ValueError("a domain connects ranks, but this host has none: delete domain")


class JoiningHosts(Section, frozen=True, kw_only=True, rename={"source": "from"}):
    """Hosts that are the machines of the agents which join a run."""

    source: Literal["agents"]
    count: Annotated[int, Meta(ge=1, le=100_000, description="how many agents a run waits for")]
    interface: Annotated[str, Meta(description="port under test of each; default: the agent's only one")] | None = None
    rate: Annotated[str, Meta(description="of each port, with its unit; default: what its driver says")] | None = None
    slots: Annotated[int, Meta(ge=1, description="most ranks a host takes")] | None = None
    domain: (
        Annotated[DomainSection, Meta(description="connects the ranks of each host, besides the network")] | None
    ) = None


class SwitchSection(Section, frozen=True, kw_only=True):
    """A switch."""

    name: Name
    kind: Literal["bridge", "ovs", "router", "physical"] = "bridge"
    queue: Annotated[str | int, Meta(description="of each port in a lab: 1M; default: 8 ms")] | None = None


class LinkSection(Section, frozen=True, kw_only=True):
    """A cable."""

    endpoints: tuple[End, End]
    rate: Rate | None = None
    mtu: Mtu | None = None
    latency: Annotated[str, Meta(description="one way, with its unit: 5us")] | None = None


class RouteSection(Section, frozen=True, kw_only=True):
    """Next hops that take precedence over equal-cost paths."""

    at: Annotated[str, Meta(description="the switch")]
    to: Annotated[str, Meta(description="a host, or one of its interfaces: host:eth1")]
    via: Annotated[str | Names, Meta(description="the neighbour, or several")]


class EcmpSection(Section, frozen=True, kw_only=True):
    """How switches choose among equal-cost paths."""

    seed: Annotated[int, Meta(ge=0, le=0xFFFF_FFFF, description="seed of the flow hash")] = 0


class BfdSection(Section, frozen=True, kw_only=True):
    """How routers notice that a link delivers nothing any more."""

    interval: Annotated[str, Meta(description="between two packets, with its unit; whole milliseconds")] = "50ms"
    multiplier: Annotated[int, Meta(ge=2, le=255, description="so many packets missing: the link is down")] = 3


class RoutingSection(Section, frozen=True, kw_only=True):
    """A routing protocol between the routers of a lab, in place of static routes."""

    protocol: Literal["bgp"]
    bfd: Annotated[BfdSection, Meta(description="default: no BFD")] | None = None


class FabricSection(Section, frozen=True, kw_only=True):
    """A regular leaf-spine network; stands in place of hosts, switches and links."""

    leaves: Annotated[int, Meta(ge=1, le=100_000)]
    spines: Annotated[int, Meta(ge=1, le=10_000)]
    hosts_per_leaf: Annotated[int, Meta(ge=1, le=10_000)]
    rate: Rate
    interfaces: Annotated[int, Meta(ge=1, le=64, description="of each host")] = 1
    rails: Annotated[bool, Meta(description="interface i of a host is connected to leaf i of its pod")] = False
    uplink_rate: Annotated[str, Meta(description="of a link from leaf to spine; default: rate")] | None = None
    mtu: Mtu | None = None
    domain: Annotated[DomainSection, Meta(description="of each host")] | None = None
    kind: Annotated[Literal["router", "physical"], Meta(description="of the switches")] = "router"
    addresses: Annotated[str, Meta(description="the prefix that addresses are taken from")] = "198.18.0.0/15"


class GnmiSection(Section, frozen=True, kw_only=True):
    """A switch that reports the counters of its interfaces over gNMI."""

    device: Annotated[str, Meta(description="its name in this file")]
    address: Annotated[str, Meta(description="HOST:PORT")]
    username_env: Annotated[str, Meta(description="environment variable that holds the user name")] | None = None
    password_env: Annotated[str, Meta(description="environment variable that holds the password")] | None = None
    insecure: Annotated[bool, Meta(description="no TLS")] = False
    ca: Annotated[str, Meta(description="PEM file of the authority that signed its certificate")] | None = None
    queues: Annotated[str, Meta(description="how often it streams their depth: 20ms, or on_change")] | None = None


class DutSection(Section, frozen=True, kw_only=True):
    """The device under test."""

    kind: Literal["nic", "switch", "fabric"]
    vendor: str | None = None
    model: str | None = None
    firmware: str | None = None
    nodes: Names | None = None
    ports: Annotated[tuple[End, ...], Meta(min_length=1)] | None = None
    gnmi: Annotated[tuple[GnmiSection, ...], Meta(min_length=1)] | None = None


class TopologyFile(Section, frozen=True, kw_only=True):
    """A Charkha topology."""

    name: Annotated[str, Meta(description="default: the name of the file")] | None = None
    hosts: Annotated[tuple[HostSection, ...], Meta(min_length=1)] | JoiningHosts | None = None
    switches: Annotated[tuple[SwitchSection, ...], Meta(min_length=1)] | None = None
    links: Annotated[tuple[LinkSection, ...], Meta(min_length=1)] | None = None
    routes: tuple[RouteSection, ...] | None = None
    ecmp: EcmpSection = EcmpSection()
    routing: Annotated[RoutingSection, Meta(description="default: static routes")] | None = None
    fabric: FabricSection | None = None
    dut: DutSection | None = None
    agents: Annotated[dict[str, Name], Meta(description="host: name of the agent that serves it")] = field(
        default_factory=dict
    )
    transport: Annotated[
        dict[str, str | int | float | bool],
        Meta(description="name of the transport and its parameters; the command line overrides them"),
    ] = field(default_factory=dict)
    placement: Annotated[
        str | dict[str, str], Meta(description="block, round_robin, rail, or a mapping from rank to host")
    ] = "block"
