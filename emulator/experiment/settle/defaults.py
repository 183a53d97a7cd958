"""From a run spec and a topology to every setting of the run, with its unit and source.

The only place where defaults are derived, for `run`, `bench`, `plan`, `calibrate` and `check`. It reads no files but
those of algorithms, no host and no clock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any, TypeVar

from emulator.control.parameter import Parameter, Setting, Source
from emulator.device.lab.shaping import call_bytes
from emulator.errors import PlanError
from emulator.experiment.spec.document import name_of
from emulator.experiment.spec.readers import parse_message_bytes
from emulator.experiment.spec.settings import SETTINGS, section_at
from emulator.experiment.spec.spec import WORST, Experiment, Job, Observe, Plain, one_spelling
from emulator.option import spelled
from emulator.planner.algorithms import parse_overrides
from emulator.planner.network.header_overhead import (
    DEFAULT_MTU,
    ETHERNET_BYTES,
    WireOverhead,
    roce_packet_bytes,
    roce_path_mtu,
    transport_overhead,
)
from emulator.planner.rank_program import NO_STEPS, WORST_STEPS
from emulator.roce.options import RoceOptions
from emulator.topology.model import Topology
from emulator.transports.registry import DEFAULT_TRANSPORT, REGISTRY, TransportFacts, TransportOptions, transport_named
from emulator.units import BITS_PER_BYTE, NS_PER_S

T = TypeVar("T")

SLOW_PORT_WINDOW_NS = 40_000_000
"""Window at slow ports, as time at their rate: the receiver acknowledges every half of it, well within the timeout."""
USUAL_WINDOW_BYTES, LEAST_WINDOW_BYTES = 2 << 20, 64 << 10
FAST_PORT_BPS = 500_000_000
"""A bin of 1 ms is at least ten times as long as a full frame takes there."""
_MESSAGE_BYTES = "message_bytes"


@dataclass(frozen=True, slots=True)
class Resolved:
    """Every setting of a run, typed.

    Attributes:
        transport: facts about the transport.
        message_bytes: payload of a message, at most.
        options: of the transport; None: it has none.
        iterations, warmup: how many of each.
        overrides: collective → algorithm.
        compute_factor: recorded compute time is multiplied by it.
        scale_bytes: every payload is multiplied by it.
        element_bytes: of a trace that counts elements; None: it counts bytes.
        record_steps: see PlaySettings.
        mtu: smallest MTU of the links, bytes of an IP packet.
        overhead: header bytes of a full message of this transport at that MTU.
        full_frame_bytes: the longest frame of the run, on the wire.
        settings: all of it by name, with unit and source, in the order of resolution.
    """

    transport: TransportFacts
    message_bytes: int
    options: TransportOptions | None
    iterations: int
    warmup: int
    credits: bool
    overrides: Mapping[str, str]
    compute_factor: float
    scale_bytes: Fraction
    element_bytes: int | None
    timeout_s: float
    join_timeout_s: float
    counters_every_s: float
    seed: int
    record_steps: int
    mtu: int
    overhead: WireOverhead
    full_frame_bytes: int
    settings: Sequence[Setting]

    @property
    def roce(self) -> RoceOptions | None:
        """Options of the RoCE transport; None for another one."""
        return self.options if isinstance(self.options, RoceOptions) else None

    def parameters(self, prefix: str) -> dict[str, Parameter]:
        """The settings whose name begins with `prefix`, as the manifest lists parameters."""
        return {one.name: Parameter(one.value, one.unit) for one in self.settings if one.name.startswith(prefix)}


def resolve(experiment: Experiment, topology: Topology, *, in_lab: bool = False) -> Resolved:
    """Settle every setting of a run.

    Args:
        experiment: the run spec.
        topology: with a place for every rank.
        in_lab: the run is played in a lab, whose hosts limit the size of a burst.

    Raises:
        PlanError: the topology or the run spec sets an option that the transport does not have, or a value that it
            cannot have.
    """
    job, requested = experiment.job, experiment.network.transport
    record = _SettingRecord()
    of_file = topology.transport.get("name")
    name = record.choose("transport", requested=requested.name, topology=of_file, default=DEFAULT_TRANSPORT)
    facts = transport_named(str(name))
    of_topology = _topology_options(topology, facts)
    message_bytes = record.choose(
        _MESSAGE_BYTES,
        requested=None if requested.message_bytes is None else int(requested.message_bytes),
        topology=_message_bytes(of_topology.pop(_MESSAGE_BYTES, None), topology),
        default=facts.message_bytes,
        unit="bytes",
    )
    _check_options(requested.options, facts)
    overrides = overrides_of(job)
    for collective, algorithm in overrides.items():
        record.note(f"algorithm.{collective}", algorithm, source=Source.ASKED)
    for name, value in (("hosts", ", ".join(job.host_names) if job.host_names else job.hosts), ("pace", job.pace)):
        if value is not None:
            record.note(name, value, source=Source.ASKED)
    mtu = experiment.network.mtu or topology.link_mtu
    if experiment.network.mtu is not None:
        of_topology.pop("path_mtu", None)  # chosen for the MTU of the links
    options: TransportOptions | None = None
    if facts.options is not None:
        stops = any(one.down is not None or one.do is not None for one in experiment.events)
        options = _options(
            record, facts, requested.options, of_topology, topology, mtu=mtu, in_lab=in_lab, stops_traffic=stops
        )
    roce = options if isinstance(options, RoceOptions) else None
    if roce is not None:
        _check_entropy(roce, topology)
        _check_survival(roce, topology)
    values = _values(record, experiment)
    return Resolved(
        transport=facts,
        message_bytes=message_bytes,
        options=options,
        iterations=values["job.iterations"],
        warmup=values["job.warmup"],
        credits=values["job.credits"],
        overrides=overrides,
        compute_factor=record.choose(
            "compute", requested=None if job.compute is None else job.compute_factor, default=1.0
        ),
        scale_bytes=_scale(record, job),
        element_bytes=None if job.trace is None else job.trace.element_bytes,
        timeout_s=values["timeout_s"],
        join_timeout_s=values["agents.join_timeout_s"],
        counters_every_s=values["device.counters_every_s"],
        seed=values["seed"],
        record_steps=_record_steps(record, experiment.observe),
        mtu=mtu or DEFAULT_MTU,
        overhead=transport_overhead(
            facts.name,
            mtu=mtu or DEFAULT_MTU,
            message_bytes=message_bytes,
            path_mtu=None if options is None else options.path_mtu,
            ipv6=topology.is_ipv6,
            is_sprayed=roce is not None and roce.multipath > 0,
        ),
        full_frame_bytes=roce_packet_bytes(options.path_mtu, ipv6=topology.is_ipv6)
        if options is not None and record.source_of(f"{facts.name}.path_mtu") is not Source.DEFAULT
        else (mtu or DEFAULT_MTU) + ETHERNET_BYTES,
        settings=record.settings,
    )


def overrides_of(job: Job) -> Mapping[str, str]:
    """Collective → requested algorithm; one in a file is read, proved, and named.

    Raises:
        PlanError: a collective or an algorithm that does not exist, or a file whose algorithm is wrong.
    """
    return parse_overrides([f"{collective}={name_of(name)}" for collective, name in job.algorithms.items()])


class _SettingRecord:
    """Chooses values, and records the source of each."""

    def __init__(self) -> None:
        self.settings: list[Setting] = []

    def choose(
        self,
        name: str,
        *,
        requested: T | None = None,
        topology: T | None = None,
        derived: T | None = None,
        default: T,
        unit: str = "",
        reason: str = "",
    ) -> T:
        """The first that is not None, in the order of the arguments."""
        candidates = ((Source.ASKED, requested), (Source.TOPOLOGY, topology), (Source.DERIVED, derived))
        source, value = next(((s, one) for s, one in candidates if one is not None), (Source.DEFAULT, default))
        self.note(name, value, unit, source, reason if source is Source.DERIVED else "")
        return value

    def note(self, name: str, value: object, unit: str = "", source: str = Source.DEFAULT, reason: str = "") -> None:
        """Record a value that was chosen elsewhere."""
        plain = value if isinstance(value, (str, int, float, bool)) else str(value)
        self.settings.append(Setting(name, plain, unit, source, reason))

    def source_of(self, name: str) -> str:
        """Where the value of a setting comes from."""
        return next(one.source for one in self.settings if one.name == name)


def _options(
    record: _SettingRecord,
    facts: TransportFacts,
    requested: Mapping[str, Plain],
    of_topology: Mapping[str, Plain],
    topology: Topology,
    *,
    mtu: int | None,
    in_lab: bool,
    stops_traffic: bool,
) -> TransportOptions:
    """The options of a transport."""
    assert facts.options is not None
    rates = [topology.rate_bps(rank) for rank in range(topology.endpoints)]
    chosen: dict[str, Plain] = {}
    sources: dict[str, tuple[Source, str]] = {}
    derived = _largest_path_mtu(topology, mtu)
    if facts.is_paced:
        derived |= _derived_from_rates(rates, in_lab=in_lab)
    if facts.options is RoceOptions and len(set(topology.host_index)) < 2:
        derived["split"] = "off", "all ranks are on one host"
    if facts.options is RoceOptions and stops_traffic:
        derived["timeline"] = _timeline_bin(rates), "events stop traffic: it measures the outage"
    known = _known_fields(facts)
    of_spec = {known[spelled(name)]: value for name, value in requested.items()}
    for field in fields(facts.options):
        for source, values in ((Source.ASKED, of_spec), (Source.TOPOLOGY, of_topology)):
            if field.name in values:
                chosen[field.name], sources[field.name] = values[field.name], (source, "")
                break
        else:
            if field.name in derived:
                chosen[field.name], reason = derived[field.name]
                sources[field.name] = Source.DERIVED, reason
    options = facts.options.parse(chosen)
    for name, (value, unit) in options.described(set(rates)).items():
        source, reason = sources.get(name, (Source.DEFAULT, ""))
        if name == "timeout_ns" or name.startswith("dcqcn."):
            source, reason = Source.DERIVED, "from qp_timeout" if name == "timeout_ns" else "from the preset"
        record.note(f"{facts.name}.{name}", value, unit, source, reason)
    return options


def _timeline_bin(rates: Sequence[int | None]) -> str:
    """Bins for ports of these rates in bit/s, see docs/timeline.md; as at the fastest if one is not known."""
    slowest = min((rate for rate in rates if rate is not None), default=FAST_PORT_BPS)
    return "1ms" if slowest >= FAST_PORT_BPS else "10ms" if slowest >= FAST_PORT_BPS // 10 else "100ms"


def _check_entropy(roce: RoceOptions, topology: Topology) -> None:
    """Refuse flow labels as entropy where a rank has none."""
    if roce.multipath and roce.entropy_field == "flow-label":
        for rank, address in enumerate(topology.addresses):
            if ":" not in address:
                raise PlanError(
                    f"--entropy-field flow-label: {topology.label_of(rank)} has the IPv4 address {address}, which has "
                    "no flow label: use --entropy-field port"
                )


def _check_survival(roce: RoceOptions, topology: Topology) -> None:
    """Refuse a run that is to outlive a port where ranks have one path, or many."""
    if not roce.survive:
        return
    if roce.multipath:
        raise PlanError("--survive moves queue pairs of one path to another: leave out --multipath, which has many")
    for rank in range(topology.ranks):
        if topology.alternate_of(rank) is None:
            host = topology.host_of(rank)
            problem = (
                f"the next interface of {host.name} has no address left for it"
                if len(host.interfaces) > 1
                else f"{host.name} has one interface"
            )
            raise PlanError(
                f"--survive: rank {rank} has no second address, as {problem}: see `interfaces` in docs/topologies.md"
            )


def _largest_path_mtu(topology: Topology, mtu: int | None) -> dict[str, tuple[Plain, str]]:
    """Option → (value, reason): the path MTU, if the MTU of the links is known."""
    if mtu is None:
        return {}
    largest = min(roce_path_mtu(mtu, ipv6=topology.is_ipv6), RoceOptions().path_mtu)
    return {"path_mtu": (largest, f"largest that fits the link MTU of {mtu}")}


def _derived_from_rates(rates: Sequence[int | None], *, in_lab: bool) -> dict[str, tuple[Plain, str]]:
    """Option → (value, reason), for options that follow from the rates of ports unless they are set."""
    known = [rate for rate in rates if rate is not None]
    if len(known) < len(rates) or not known:
        return _slow_window(known)
    found: dict[str, tuple[Plain, str]] = {"congestion": ("dcqcn", "the port of every rank has a rate")}
    if in_lab and (burst := call_bytes(min(known))) is not None:
        found["call_bytes"] = burst, "largest burst of a lab host"
    return found | _slow_window(known)


def _slow_window(known_rates_bps: Sequence[int]) -> dict[str, tuple[Plain, str]]:
    """The window at slow ports; nothing if no port is slow, or no rate is known."""
    window_bytes = slow_window_bytes(min(known_rates_bps, default=0))
    if not known_rates_bps or window_bytes >= USUAL_WINDOW_BYTES:
        return {}
    return {"window_bytes": (window_bytes, "40 ms at the rate of the slowest port")}


def slow_window_bytes(rate_bps: int) -> int:
    """The window at a port of that rate, if it is slow: 40 ms."""
    return max(LEAST_WINDOW_BYTES, SLOW_PORT_WINDOW_NS * rate_bps // (BITS_PER_BYTE * NS_PER_S))


def _topology_options(topology: Topology, facts: TransportFacts) -> dict[str, Plain]:
    """Options that the topology sets for this transport.

    Raises:
        PlanError: an option that the transport does not have, or a value that it cannot have.
    """
    given = {name.replace("-", "_"): value for name, value in topology.transport.items()}
    if given.pop("name", None) != facts.name:
        return {}
    found: dict[str, Plain] = {}
    for name, value in given.items():
        field = name if name == _MESSAGE_BYTES else _known_fields(facts).get(spelled(name))
        if field is None:
            known = ", ".join([_MESSAGE_BYTES, *(one.replace("-", "_") for one in _known_fields(facts))])
            raise PlanError(f"{topology.source}: transport {facts.name} has no parameter {name!r}; it has {known}")
        found[field] = one_spelling(value)
    if facts.options is not None:
        try:
            facts.options.parse({name: value for name, value in found.items() if name != _MESSAGE_BYTES})
        except PlanError as error:
            raise PlanError(f"{topology.source}: transport: {str(error).removeprefix('--')}") from error
    return found


def _known_fields(facts: TransportFacts) -> dict[str, str]:
    """An option as the command line spells it → its field: `rate-cap` and `rate_cap_bps` are the same."""
    return {} if facts.options is None else {spelled(field.name): field.name for field in fields(facts.options)}


def _check_options(requested: Mapping[str, Plain], facts: TransportFacts) -> None:
    known = _known_fields(facts)
    for name in requested:
        if spelled(name) not in known:
            owner = next((one for one in _owners(name) if one != facts.name), None)
            if owner is not None:
                raise PlanError(f"--{spelled(name)} is for --transport {owner}, not for {facts.name}")
            raise PlanError(f"transport {facts.name} has no option {name!r}; it has {', '.join(known) or 'none'}")


def _owners(option: str) -> list[str]:
    return [facts.name for facts in REGISTRY.values() if spelled(option) in _known_fields(facts)]


def _message_bytes(given: Plain | None, topology: Topology) -> int | None:
    if given is None:
        return None
    try:
        return parse_message_bytes(str(given))
    except ValueError as error:
        raise PlanError(f"{topology.source}: transport message_bytes: {error}") from error


def _values(record: _SettingRecord, experiment: Experiment) -> dict[str, Any]:
    """Path → value of every setting that has a default of its own: what was asked for, else that."""
    values: dict[str, Any] = {}
    for one in SETTINGS:
        if one.facts.default is not None:
            section = section_at(experiment, one.path)
            default = one.facts.default(section) if callable(one.facts.default) else one.facts.default
            values[one.path] = record.choose(
                one.name.removesuffix(f"_{one.facts.unit}"),
                requested=getattr(section, one.name),
                default=default,
                unit=one.facts.unit,
            )
    return values


def _record_steps(record: _SettingRecord, observe: Observe) -> int:
    asked = observe.record_steps
    record.choose("record_steps", requested=None if asked is None else str(asked), default="off")
    if asked is None:
        return NO_STEPS
    return WORST_STEPS if asked == WORST else int(asked)


def _scale(record: _SettingRecord, job: Job) -> Fraction:
    requested = job.trace is not None and job.trace.scale_bytes is not None
    scale = job.trace.scale if job.trace is not None else Fraction(1)
    record.note("scale_bytes", float(scale), source=Source.ASKED if requested else Source.DEFAULT)
    return scale
