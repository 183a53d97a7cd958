"""A run as a value: what to play, over which network, with which settings. Plain values; no file is opened.

`None` means "not specified": `resolve` then uses the value of the topology, a derived one, or the default, and records
which. The same values come from the command line, from a YAML file (`charkha run -f run.yaml`), from Python
(`from charkha import Experiment`) and from the manifest of a run (`charkha run --again RUN`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

import msgspec
from msgspec import Meta
from msgspec.structs import force_setattr, replace

from emulator.experiment.spec.event_spec import Event
from emulator.experiment.spec.flow_spec import Background, Flow, parse_background
from emulator.experiment.spec.readers import (
    locate,
    locate_algorithm,
    locate_rules,
    locate_topology,
    locate_trace,
    parse_compute,
    parse_hosts,
    parse_message_bytes,
    parse_profile,
    parse_ratio,
    parse_scale,
    parse_start,
)
from emulator.option import COMMON, EXPERT, options_of, setting
from emulator.trace.meaning.model import CommKind
from emulator.trace.meaning.names import COLLECTIVES, parse_class_name
from emulator.transports.registry import DEFAULT_TRANSPORT, LISTED, REGISTRY, TRANSPORTS
from emulator.units import LARGEST_COUNT, LARGEST_SEED, digits, format_size, parse_duration, parse_size

VERSION = 1
"""Version of the format. Older ones are migrated on reading, newer ones are refused."""
AUTO: Literal["auto"] = "auto"
WORST: Literal["worst"] = "worst"
DEFAULT_MIN_BYTES, DEFAULT_MAX_BYTES = 1 << 10, 1 << 26
"""Sizes of a sweep."""
DEFAULT_PAIR_BYTES = 8 << 20
TRACE_ITERATIONS, SWEEP_ITERATIONS = 5, 20
_MESSAGE_SIZES = ", ".join(f"{format_size(one.message_bytes)} with {one.name}" for one in REGISTRY.values())
_JOB_NAME = re.compile(r"\w[\w.-]{0,59}", re.ASCII)

Count: TypeAlias = Annotated[int, Meta(ge=1, le=LARGEST_COUNT)]
Seconds: TypeAlias = Annotated[float, Meta(gt=0)]
Plain: TypeAlias = str | int | float | bool


class _Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A part of a run spec. Unknown keys are refused; default values are not written.

    Texts and numbers of an option that has a reader are stored as it reads them.
    """

    GROUP: ClassVar[str] = "play"

    def __post_init__(self) -> None:
        for one in options_of(type(self)):
            if one.facts.read is None or "." in one.path:
                continue
            value = getattr(self, one.name)
            if isinstance(value, str | int | float):
                read = one.facts.read(str(value))
                force_setattr(self, one.name, tuple(read) if isinstance(read, list) else read)
            elif one.is_list and one.facts.separator:
                force_setattr(self, one.name, tuple(one.facts.read(str(element)) for element in value))


class Trace(_Section, frozen=True, kw_only=True):
    """A trace set to play."""

    GROUP = "trace"
    path: Annotated[str, setting(
        "a folder, a prefix of <prefix>.<rank>.et, or one file", "TRACE", flags="TRACE", group="",
        locate=locate_trace
    )]  # fmt: skip
    groups: Annotated[str | None, setting(
        'process groups: JSON {"1": [0, 1], …}', "FILE", locate=locate, unset="the file beside it",
        is_reserved=True
    )] = None  # fmt: skip
    ranks: Annotated[Count | None, setting("number of ranks that the trace must have")] = None
    lenient: Annotated[bool, setting("drop dependencies on missing nodes")] = False
    strict: Annotated[bool, setting("refuse an import that needs guesses")] = False
    element_bytes: Annotated[
        Count | None, setting("comm_size in the trace counts elements of N bytes", level=EXPERT)
    ] = None
    scale_bytes: Annotated[
        str | int | float | None, setting("multiply every payload by F, for example 1/64", "F", read=parse_scale)
    ] = None

    @property
    def scale(self) -> Fraction:
        """The factor on every payload."""
        return Fraction(1) if self.scale_bytes is None else Fraction(str(self.scale_bytes))


class Sweep(_Section, frozen=True, kw_only=True):
    """One collective over a range of sizes (bytes, counted as nccl-tests does)."""

    GROUP = ""
    collective: Annotated[str, setting(
        "all_reduce, all_gather, all_to_all, reduce_scatter, broadcast …", "COLLECTIVE", flags="COLLECTIVE",
        read=parse_class_name
    )]  # fmt: skip
    ranks: Annotated[Count, setting(
        "number of ranks (for -n of nccl-tests, use --iterations)", "RANKS", flags="-n --ranks", level=COMMON
    )]  # fmt: skip
    min_bytes: Annotated[str | int | None, setting(
        "smallest size, or a list: 1K,4K,1M", "MIN", flags="-b --min-bytes", read=parse_size, unset="1K",
        level=COMMON
    )] = None  # fmt: skip
    max_bytes: Annotated[str | int | None, setting(
        "largest size", "MAX", flags="-e --max-bytes", read=parse_size,
        unset="64M, or the smallest if it is larger", level=COMMON
    )] = None  # fmt: skip
    factor: Annotated[int | float | None, setting(
        "ratio of each size to the previous one", "FACTOR", flags="-f --factor", read=parse_ratio, unset="2",
        level=COMMON
    )] = None  # fmt: skip
    step_bytes: Annotated[str | int | None, setting(
        "fixed step in bytes, instead of a factor", "STEP", flags="-i --step-bytes", read=parse_size
    )] = None  # fmt: skip
    sizes: Annotated[
        tuple[str | int, ...], setting("all sizes, as -b 1K,4K,1M", "LIST", read=parse_size, separator=",")
    ] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        growth = (self.factor, self.step_bytes)
        if None not in growth:
            raise ValueError("sizes grow by a factor (-f) or by a step (-i), not both")
        if self.sizes and (self.min_bytes, self.max_bytes, *growth) != (None,) * 4:
            raise ValueError("a list of sizes has no largest size (-e), factor (-f) or step (-i)")

    @property
    def kind(self) -> CommKind:
        """The collective; SEND for pairs of ranks."""
        return COLLECTIVES.get(self.collective, CommKind.SEND)

    @property
    def bounds(self) -> tuple[int, int]:
        """Smallest and largest size of the range, bytes."""
        least = DEFAULT_MIN_BYTES if self.min_bytes is None else int(self.min_bytes)
        return least, max(least, DEFAULT_MAX_BYTES) if self.max_bytes is None else int(self.max_bytes)


class Pairs(_Section, frozen=True, kw_only=True):
    """All-reduces of two ranks each, all pairs at once: what `charkha agent calibrate` plays.

    Attributes:
        counts: (bytes, how many of them one after the other), in order.
    """

    ranks: Annotated[int, Meta(ge=2, le=LARGEST_COUNT)]
    counts: tuple[tuple[int, int], ...]


class PairSweep(_Section, frozen=True, kw_only=True):
    """Transfers between all pairs of ranks, as `charkha bench pairs` plays them: each sends to one other at a time."""

    GROUP = ""
    ranks: Annotated[Annotated[int, Meta(ge=2, le=LARGEST_COUNT)], setting(
        "number of ranks", "RANKS", flags="-n --ranks", level=COMMON
    )]  # fmt: skip
    size_bytes: Annotated[
        str | int, setting("bytes per transfer", "SIZE", flags="-b --size", read=parse_size, unset="8M", level=COMMON)
    ] = DEFAULT_PAIR_BYTES
    rounds: Annotated[
        Count | None, setting("each rank sends to N others, spread evenly", unset="all", level=COMMON)
    ] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.size_bytes == 0:
            raise ValueError("size_bytes: a transfer has at least 1 byte")


class Transport(_Section, frozen=True, kw_only=True):
    """How payload crosses the network.

    Attributes:
        options: of the transport, see docs/settings.md: `qps`, `path_mtu`, `flow_rate` …
    """

    GROUP = "network"
    name: Annotated[str | None, setting(
        LISTED, "NAME", flags="--transport", choices=TRANSPORTS, unset=f"the topology's, else {DEFAULT_TRANSPORT}",
        level=COMMON
    )] = None  # fmt: skip
    message_bytes: Annotated[str | int | None, setting(
        "largest message into which payload is cut, 1 byte to 1 GiB", "SIZE", read=parse_message_bytes,
        unset=_MESSAGE_SIZES
    )] = None  # fmt: skip
    options: Mapping[str, Plain] = {}

    def __post_init__(self) -> None:
        super().__post_init__()
        force_setattr(
            self, "options", {name.replace("-", "_"): one_spelling(value) for name, value in self.options.items()}
        )


class Job(_Section, frozen=True, kw_only=True):
    """A workload and how it is played. Exactly one of `trace`, `sweep`, `pairs` and `pair_sweep` is set.

    Attributes:
        name: unique in the session, and part of the name of its run folder.
        transport: what differs from the network's; None: nothing.
    """

    name: str = "job"
    trace: Trace | None = None
    sweep: Sweep | None = None
    pairs: Pairs | None = None
    pair_sweep: PairSweep | None = None
    iterations: Annotated[Count | None, setting(
        "measured iterations", default=_iterations, unset=f"{TRACE_ITERATIONS}, of a sweep {SWEEP_ITERATIONS}",
        level=COMMON
    )] = None  # fmt: skip
    warmup: Annotated[Annotated[int, Meta(ge=0, le=LARGEST_COUNT)] | None, setting(
        "warm-up iterations, not measured", flags="-w --warmup", default=1
    )] = None  # fmt: skip
    compute: Annotated[str | int | float | None, setting(
        "replay recorded compute time, skip it, or multiply it", "replay|skip|FACTOR", read=parse_compute,
        unset="replay"
    )] = None  # fmt: skip
    algorithms: Annotated[Mapping[str, str], setting(
        "algorithm: all_reduce=ring, or all_reduce=FILE.xml (repeatable)", "KIND=NAME", flags="--algorithm",
        locate=locate_algorithm, level=COMMON
    )] = {}  # fmt: skip
    credits: Annotated[bool | None, setting("receiver-ready credits", default=True)] = None
    hosts: Annotated[tuple[str, ...] | str | None, setting(
        "hosts of the topology for its ranks, A+B; 1/2: the first half of those that take ranks, in the order of"
        " the file", flags="", read=parse_hosts, unset="all"
    )] = None  # fmt: skip
    addresses: Annotated[str | None, setting(
        "share of the addresses of every interface: 2/3 is each third, from the second on", flags="",
        unset="all; of jobs that meet on a host, an even share"
    )] = None  # fmt: skip
    start: Annotated[str | int | float | None, setting(
        "when it begins, after the session began, for example 3ms", flags="", read=parse_start, unset="at once"
    )] = None  # fmt: skip
    until: Annotated[Literal["others"] | None, setting(
        "others: repeat iterations until all other jobs have ended", flags="", unset="as many as iterations"
    )] = None  # fmt: skip
    pace: Annotated[Literal["barrier", "continuous"] | None, setting(
        "ranks start an iteration together, or each once it has completed the previous one",
        group="several jobs at once", unset="barrier"
    )] = None  # fmt: skip
    transport: Transport | None = None

    def __post_init__(self) -> None:
        if sum(one is not None for one in (self.trace, self.sweep, self.pairs, self.pair_sweep)) != 1:
            raise ValueError("a job needs exactly one of trace, sweep, pairs and pair_sweep")
        if not _JOB_NAME.fullmatch(self.name):
            raise ValueError(f"name: {self.name[:60]!r}: write letters, digits, dots, dashes and underscores, up to 60")
        super().__post_init__()
        names = self.host_names
        if names is not None and (not names or len(set(names)) < len(names)):
            raise ValueError("hosts: list at least one, and each only once")
        if self.until is not None and self.iterations is not None:
            raise ValueError("give iterations or until, not both")
        _ = self.address_share, self.host_share

    @property
    def compute_factor(self) -> float:
        """Recorded compute time is multiplied by it."""
        named: dict[object, float] = {None: 1.0, "replay": 1.0, "skip": 0.0}
        return named[self.compute] if self.compute in named else float(Fraction(str(self.compute)))

    @property
    def start_ns(self) -> int:
        """When it begins, after the session began."""
        return 0 if self.start is None else parse_duration(str(self.start))

    @property
    def address_share(self) -> tuple[int, int]:
        """(first, step) of the addresses that it takes of every interface, counted from 0."""
        return (0, 1) if self.addresses is None else _parse_part("addresses", self.addresses)

    @property
    def host_names(self) -> tuple[str, ...] | None:
        """Hosts that are named; None: all, or a share of them."""
        return None if isinstance(self.hosts, str) else self.hosts

    @property
    def host_share(self) -> tuple[int, int]:
        """(number, of): which of how many equal parts of the hosts it takes, counted from 0."""
        return _parse_part("hosts", self.hosts) if isinstance(self.hosts, str) else (0, 1)


class Network(_Section, frozen=True, kw_only=True):
    """Where traffic goes."""

    GROUP = "network"
    topology: Annotated[str | None, setting(
        "hosts, addresses, switches, rates", "FILE", unset="loopback", level=COMMON, locate=locate_topology
    )] = None  # fmt: skip
    lab: Annotated[str | None, setting("the lab, if the topology has several", metavar="ID", is_reserved=True)] = None
    allow_networks: Annotated[tuple[str, ...], setting(
        "let the topology use addresses of this prefix, for example 192.0.2.0/24", "PREFIX",
        flags="--allow-network", is_reserved=True
    )] = ()  # fmt: skip
    mtu: Annotated[Annotated[int, Meta(ge=576, le=65_535)] | None, setting(
        "MTU to assume, bytes", unset="the links', else 1500", level=EXPERT
    )] = None  # fmt: skip
    transport: Transport = Transport()


class Device(_Section, frozen=True, kw_only=True):
    """The device under test."""

    GROUP = "device under test"
    profile: Annotated[
        str | None, setting("firmware profile of the lab's switches, for example fw-b", "NAME|FILE", level=COMMON)
    ] = None
    counters_every_s: Annotated[Annotated[float, Meta(ge=0.02, le=3600)] | None, setting(
        "period between readings of the device's counters", "S", unit="s", default=1.0, level=EXPERT
    )] = None  # fmt: skip


class Agents(_Section, frozen=True, kw_only=True):
    """The processes that play the ranks."""

    GROUP = "agents on other machines"
    count: Annotated[Count | None, setting("agent processes", flags="--agents", group="play", unset="one per core")] = (
        None
    )
    by_hand: Annotated[bool, setting("start no agent; `charkha agent start` does", is_reserved=True)] = False
    listen: Annotated[
        str | None, setting("address for the agents in the topology's `agents`", metavar="HOST:PORT", is_reserved=True)
    ] = None
    join_timeout_s: Annotated[
        Seconds | None, setting("wait this long for agents to connect", "S", unit="s", default=60.0, level=EXPERT)
    ] = None
    token_file: Annotated[str | None, setting(
        "secret that agents must present", "FILE", unset="CHARKHA_TOKEN", locate=locate, is_reserved=True
    )] = None  # fmt: skip
    tls_cert: Annotated[str | None, setting(
        "own certificate, PEM; encrypts control connections", "FILE", locate=locate, level=EXPERT, is_reserved=True
    )] = None  # fmt: skip
    tls_key: Annotated[
        str | None, setting("key of the certificate, PEM", "FILE", locate=locate, level=EXPERT, is_reserved=True)
    ] = None
    tls_ca: Annotated[str | None, setting(
        "authority of the other side's certificate, PEM", "FILE", locate=locate, level=EXPERT, is_reserved=True
    )] = None  # fmt: skip
    identity: Annotated[str | None, setting(
        "the controller's identity, from `charkha agent certs issue`", "FILE", locate=locate, is_reserved=True
    )] = None  # fmt: skip
    insecure: Annotated[bool, setting("allow remote control connections without certificates", is_reserved=True)] = (
        False
    )


class Observe(_Section, frozen=True, kw_only=True):
    """Reports and telemetry of the run."""

    GROUP = "report and telemetry"
    report: Annotated[bool, setting("write report.html", flags="--no-report")] = True
    mqtt: Annotated[str | None, setting(
        "publish the run: mqtt://[USER@]HOST[:PORT][/PREFIX]; password in CHARKHA_MQTT_PASSWORD", "URL",
        is_reserved=True
    )] = None  # fmt: skip
    metrics: Annotated[
        str | None, setting("serve Prometheus metrics (default host: 127.0.0.1)", "[HOST:]PORT", is_reserved=True)
    ] = None
    calibration: Annotated[str | None, setting(
        "from `charkha agent calibrate`", "FILE", unset="the one of this host", locate=locate, is_reserved=True
    )] = None  # fmt: skip
    expect: Annotated[str | None, setting(
        "rules to judge the run by: a file, or `example`", "RULES", level=COMMON, locate=locate_rules
    )] = None  # fmt: skip
    record_steps: Annotated[Count | Literal["worst"] | None, setting(
        "record every transfer of the slowest instance of each class, or of every Nth instance", "worst|N"
    )] = None  # fmt: skip


class Campaign(_Section, frozen=True, kw_only=True):
    """The same run several times, for `charkha compare`."""

    GROUP = "repeat (for charkha compare)"
    repeat: Annotated[Annotated[int, Meta(ge=1, le=999)] | Literal["auto"], setting(
        "make N runs, each in a folder below --out; auto: as many as the classes need (4 for one, 6 for 23)",
        "N|auto", unset="1; auto with --profiles"
    )] = AUTO  # fmt: skip
    profiles: Annotated[tuple[str, ...], setting(
        "alternate between firmware profiles, A B A B, with a folder each", "A,B", read=parse_profile,
        separator=","
    )] = ()  # fmt: skip


class Experiment(_Section, frozen=True, kw_only=True):
    """A run, a campaign of runs, or a session of several jobs, as a value.

    Attributes:
        charkha: version of this format.
        flows: tests with peers alongside the jobs.
        events: what happens to the lab's switches during the run.
        campaign: None: one run.
    """

    charkha: int = VERSION
    jobs: Annotated[tuple[Job, ...], setting(
        "play this trace alongside others (repeatable); with ranks=N, hosts=A+B, start=3ms,"
        " until=others, iterations=N, warmup=N, pace=continuous", "NAME=TRACE[,…]", flags="--job",
        group="several jobs at once", read=parse_job
    )]  # fmt: skip
    flows: tuple[Flow, ...] = ()
    background: Annotated[tuple[Background, ...], setting(
        "background traffic, for example from=h0,to=h1,rate=1Gbit,sizes=web-search (repeatable)", "KEY=VALUE,…",
        read=parse_background
    )] = ()  # fmt: skip
    events: tuple[Event, ...] = ()
    network: Network = Network()
    device: Device = Device()
    agents: Agents = Agents()
    observe: Observe = Observe()
    timeout_s: Annotated[
        Seconds | None, setting("give up after this long without progress", "S", unit="s", default=60.0)
    ] = None
    seed: Annotated[Annotated[int, Meta(ge=0)] | None, setting("random seed", most=LARGEST_SEED, default=0)] = None
    campaign: Campaign | None = None

    def __post_init__(self) -> None:
        if self.charkha != VERSION:
            raise ValueError(f"this is version {self.charkha} of the run spec; this Charkha reads version {VERSION}")
        self._check_jobs()
        if self.flows and self.network.topology is None:
            raise ValueError("flows need network.topology, which lists their peers")
        if self.campaign is not None and self.campaign.profiles and self.device.profile is not None:
            raise ValueError("give --profile or --profiles, not both")
        if self.seed is not None and self.seed > LARGEST_SEED:
            raise ValueError(f"seed {self.seed} has more than 64 bits")

    def _check_jobs(self) -> None:
        names = [job.name for job in self.jobs]
        if not names:
            raise ValueError("jobs: list at least one")
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise ValueError(f"there are several jobs named {twice!r}: give each a different name")
        if self.network.topology is None and any(job.host_names or job.addresses for job in self.jobs):
            raise ValueError("hosts of a job need network.topology, which lists them")
        if all(job.until for job in self.jobs):
            raise ValueError("until: every job waits for the others: give at least one a number of iterations")

    @classmethod
    def of_trace(cls, path: str, *, network: Network | None = None, **job: Any) -> Experiment:
        """A run of a trace set.

        Args:
            path: a folder, a prefix of `<prefix>.<rank>.et`, or one file.
            network: where traffic goes; None: loopback.
            job: other attributes of `Job`, as `iterations=3`.

        Raises:
            ValueError: a value does not fit.
        """
        return cls(jobs=(Job(trace=Trace(path=path), **job),), network=network or Network())

    @classmethod
    def of_sweep(
        cls,
        collective: str,
        *,
        ranks: int,
        min_bytes: str | int | None = None,
        max_bytes: str | int | None = None,
        factor: float | None = None,
        step_bytes: str | int | None = None,
        sizes: Sequence[str | int] = (),
        network: Network | None = None,
        **job: Any,
    ) -> Experiment:
        """A sweep of one collective over sizes, as `charkha bench` plays it; arguments as `Sweep` and `of_trace`.

        Raises:
            ValueError: a value does not fit.
        """
        sweep = Sweep(
            collective=collective,
            ranks=ranks,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            factor=factor,
            step_bytes=step_bytes,
            sizes=tuple(sizes),
        )
        return cls(jobs=(Job(sweep=sweep, **job),), network=network or Network())

    @property
    def job(self) -> Job:
        """The first job, usually the only one."""
        return self.jobs[0]

    def for_job(self, name: str) -> Experiment:
        """One job of a session alone, at the same places: what its run folder holds. Flows are those of the session.

        Raises:
            KeyError: there is no such job.
        """
        job = {job.name: job for job in self.jobs}[name]
        if len(self.jobs) == 1:
            return self
        shares = self.network.topology is not None and any(_meet(job, one) for one in self.jobs if one is not job)
        number = [one.name for one in self.jobs].index(name) + 1
        addresses = f"{number}/{len(self.jobs)}" if shares and job.addresses is None else job.addresses
        transport = _merged(self.network.transport, job.transport)
        return replace(
            self,
            jobs=(replace(job, start=None, until=None, transport=None, addresses=addresses),),
            network=replace(self.network, transport=transport),
            flows=(),
            background=(),
            events=(),
        )

    def to_plain(self) -> dict[str, Any]:
        """The spec as plain values (dict, list, str, int, float, bool), for YAML, JSON and the manifest."""
        plain: dict[str, Any] = _without_empty(msgspec.to_builtins(self))
        return {"charkha": self.charkha} | plain


def _iterations(job: Job) -> int:
    return TRACE_ITERATIONS if job.sweep is None else SWEEP_ITERATIONS


def _meet(job: Job, other: Job) -> bool:
    """Whether both may have ranks on one host."""
    if job.host_names is not None and other.host_names is not None:
        return not set(job.host_names).isdisjoint(other.host_names)
    (number, of), (other_number, other_of) = job.host_share, other.host_share
    return number * other_of < (other_number + 1) * of and other_number * of < (number + 1) * other_of


def _parse_part(key: str, text: str) -> tuple[int, int]:
    """`2/3`, the second of three equal parts, as (1, 3).

    Raises:
        ValueError: not such a text.
    """
    number, of = map(digits, text.partition("/")[::2])
    if number is None or of is None or not 1 <= number <= of:
        raise ValueError(f"{key}: {text[:40]!r}: write 1/2 or 2/2, for example")
    return number - 1, of


def _merged(common: Transport, own: Transport | None) -> Transport:
    """The transport of a job; options of another transport than the common one do not apply to it."""
    if own is None:
        return common
    if own.name is not None and own.name != common.name:
        return own
    return Transport(
        name=common.name,
        message_bytes=common.message_bytes if own.message_bytes is None else own.message_bytes,
        options={**common.options, **own.options},
    )


def _without_empty(plain: Any) -> Any:
    """Plain values without empty sections; sequences become lists."""
    if isinstance(plain, dict):
        kept = {name: _without_empty(value) for name, value in plain.items()}
        return {name: value for name, value in kept.items() if value not in ({}, [])}
    return [_without_empty(one) for one in plain] if isinstance(plain, list | tuple) else plain


def parse_job(text: str) -> dict[str, Any]:
    """A job as `NAME=TRACE[,KEY=VALUE…]`, as the part of a run spec.

    Raises:
        ValueError: not such a text, or a key that is not known or there twice.
    """
    head, *rest = text.split(",")
    name, equals, path = head.partition("=")
    if not (name and equals and path):
        raise ValueError(f"{text[:60]!r}: write NAME=TRACE, for example a=traces/llama-64r,start=3ms")
    job: dict[str, Any] = {"name": name, "trace": {"path": path}}
    known = {
        one.name: one
        for one in (*options_of(Trace, "trace."), *(one for one in options_of(Job) if "." not in one.path))
        if one.flags != ("TRACE",) and not one.is_mapping
    }
    for one in rest:
        key, equals, value = one.partition("=")
        if not equals or key not in known:
            raise ValueError(f"{one[:60]!r}: write one of {', '.join(f'{word}=' for word in known)}")
        section = job["trace"] if known[key].path.startswith("trace.") else job
        if key in section:
            raise ValueError(f"{key}= is given twice")
        section[key] = known[key].read(value)
    return job


def one_spelling(value: Plain) -> str | int:
    """One spelling per value, whether it came from YAML (`off` is a boolean there) or from the command line."""
    if isinstance(value, bool):
        return "on" if value else "off"
    text = str(value)
    size = digits(text.removeprefix("-"))
    return text if size is None else -size if text.startswith("-") else size
