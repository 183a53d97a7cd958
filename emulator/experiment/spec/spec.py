"""A run as a value: what to play, over which network, with which settings. Plain values; no file is opened.

`None` means "not specified": `resolve` then uses the value of the topology, a derived one, or the default, and records
which. The same values come from the command line, from a YAML file (`charkha run -f run.yaml`), from Python
(`from charkha import Experiment`) and from the manifest of a run (`charkha run --again RUN`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta
from msgspec.structs import force_setattr, replace

from emulator.experiment.spec.background_spec import Background
from emulator.experiment.spec.flow_spec import Flow
from emulator.trace.meaning.collective_names import COLLECTIVES, parse_class_name
from emulator.trace.meaning.model import CommKind
from emulator.units import parse_duration, parse_size

VERSION = 1
"""Version of the format. Older ones are migrated on reading, newer ones are refused."""
AUTO: Literal["auto"] = "auto"
WORST: Literal["worst"] = "worst"
LARGEST_COUNT = (1 << 31) - 1
"""Iterations and ranks are stored in 32 bits."""
LARGEST_SEED = (1 << 64) - 1
LARGEST_FACTOR = 10**9
LARGEST_MESSAGE_BYTES = 1 << 30
DEFAULT_MIN_BYTES, DEFAULT_MAX_BYTES = 1 << 10, 1 << 26
"""Sizes of a sweep."""
DEFAULT_PAIR_BYTES = 8 << 20
_JOB_NAME = re.compile(r"\w[\w.-]{0,59}", re.ASCII)

Count: TypeAlias = Annotated[int, Meta(ge=1, le=LARGEST_COUNT)]
Seconds: TypeAlias = Annotated[float, Meta(gt=0)]
Plain: TypeAlias = str | int | float | bool


class _Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A part of a run spec. Unknown keys are refused; default values are not written."""


class Trace(_Section, frozen=True, kw_only=True):
    """A trace set to play.

    Attributes:
        path: a folder, a prefix of `<prefix>.<rank>.et`, or one file.
        groups: JSON file of process groups; None: the one next to the trace, if any.
        ranks: number of ranks that the trace must have.
        lenient: drop dependencies on nodes that do not exist.
        strict: refuse an import that needs guesses.
        element_bytes: the trace counts elements of this many bytes; None: it counts bytes.
        scale_bytes: factor on every payload, as "1/64"; None: 1.
    """

    path: str
    groups: str | None = None
    ranks: Count | None = None
    lenient: bool = False
    strict: bool = False
    element_bytes: Count | None = None
    scale_bytes: str | int | float | None = None

    def __post_init__(self) -> None:
        if self.scale_bytes is not None:
            force_setattr(self, "scale_bytes", str(parse_factor(str(self.scale_bytes))))

    @property
    def scale(self) -> Fraction:
        """The factor on every payload."""
        return Fraction(1) if self.scale_bytes is None else Fraction(str(self.scale_bytes))


class Sweep(_Section, frozen=True, kw_only=True):
    """One collective over a range of sizes (bytes, counted as nccl-tests does).

    Attributes:
        collective: or `send_recv`: every rank sends to the next and receives from the one before.
        min_bytes, max_bytes: first and last size; None: 1 KiB, and 64 MiB or the first size if that is larger.
        factor: ratio of one size to the one before, above 1; None: 2.
        step_bytes: difference of one size from the one before, in place of a ratio.
        sizes: all sizes, in place of a range.
    """

    collective: str
    ranks: Count
    min_bytes: str | int | None = None
    max_bytes: str | int | None = None
    factor: int | float | None = None
    step_bytes: str | int | None = None
    sizes: tuple[str | int, ...] = ()

    def __post_init__(self) -> None:
        force_setattr(self, "collective", parse_class_name(self.collective))
        for name in ("min_bytes", "max_bytes", "step_bytes"):
            if (size := getattr(self, name)) is not None:
                force_setattr(self, name, parse_size(str(size)))
        force_setattr(self, "sizes", tuple(parse_size(str(size)) for size in self.sizes))
        if self.factor is not None:
            force_setattr(self, "factor", parse_ratio(str(self.factor)))
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
    """Transfers between all pairs of ranks, as `charkha bench pairs` plays them: each sends to one other at a time.

    Attributes:
        size_bytes: of a transfer.
        rounds: each rank sends to so many others; None: to all.
    """

    ranks: Annotated[int, Meta(ge=2, le=LARGEST_COUNT)]
    size_bytes: str | int = DEFAULT_PAIR_BYTES
    rounds: Count | None = None

    def __post_init__(self) -> None:
        force_setattr(self, "size_bytes", parse_size(str(self.size_bytes)))
        if self.size_bytes == 0:
            raise ValueError("size_bytes: a transfer has at least 1 byte")


class Transport(_Section, frozen=True, kw_only=True):
    """How payload crosses the network.

    Attributes:
        name: in `emulator.transports.registry`; None: the topology's, else the first one.
        message_bytes: payload is cut into messages of at most this, 1 byte to 1 GiB; None: the transport's default.
        options: of the transport, as `charkha run --help-all` lists them: `qps`, `path_mtu`, `flow_rate` …
    """

    name: str | None = None
    message_bytes: str | int | None = None
    options: Mapping[str, Plain] = {}

    def __post_init__(self) -> None:
        if self.message_bytes is not None:
            force_setattr(self, "message_bytes", parse_message_bytes(str(self.message_bytes)))
        force_setattr(self, "options", {name.replace("-", "_"): _plain(value) for name, value in self.options.items()})


class Job(_Section, frozen=True, kw_only=True):
    """A workload and how it is played. Exactly one of `trace`, `sweep`, `pairs` and `pair_sweep` is set.

    Attributes:
        name: unique in the session, and part of the name of its run folder.
        iterations: measured; None: 5 for a trace, 20 for a sweep.
        warmup: iterations before them that are not counted; None: 1.
        compute: "replay", "skip", or a factor on recorded compute time; None: replay.
        algorithms: collective → algorithm.
        credits: receiver-ready credits; None: on.
        hosts: of the topology that its ranks are placed on; "1/2": the first half of those that take ranks, in the
            order of the file; None: all.
        addresses: "2/3": of the addresses of every interface it takes each third, from the second on; None: all, or,
            in a session with jobs on the same hosts, its even share.
        start: when it begins, after the session began; None: at once.
        until: "others": it repeats its iterations until all other jobs have ended; None: as many as `iterations`.
        pace: "barrier": all ranks begin an iteration together. "continuous": a rank begins one as soon as it has
            completed the one before. None: barrier.
        transport: what differs from the network's; None: nothing.
    """

    name: str = "job"
    trace: Trace | None = None
    sweep: Sweep | None = None
    pairs: Pairs | None = None
    pair_sweep: PairSweep | None = None
    iterations: Count | None = None
    warmup: Annotated[int, Meta(ge=0, le=LARGEST_COUNT)] | None = None
    compute: str | int | float | None = None
    algorithms: Mapping[str, str] = {}
    credits: bool | None = None
    hosts: tuple[str, ...] | str | None = None
    addresses: str | None = None
    start: str | int | float | None = None
    until: Literal["others"] | None = None
    pace: Literal["barrier", "continuous"] | None = None
    transport: Transport | None = None

    def __post_init__(self) -> None:
        if sum(one is not None for one in (self.trace, self.sweep, self.pairs, self.pair_sweep)) != 1:
            raise ValueError("a job needs exactly one of trace, sweep, pairs and pair_sweep")
        if not _JOB_NAME.fullmatch(self.name):
            raise ValueError(f"name: {self.name[:60]!r}: write letters, digits, dots, dashes and underscores, up to 60")
        if self.compute is not None:
            force_setattr(self, "compute", parse_compute(str(self.compute)))
        if self.start is not None:
            force_setattr(self, "start", parse_start(str(self.start)))
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
    """Where traffic goes.

    Attributes:
        topology: file; None: loopback.
        lab: name of the the lab, if the topology has several.
        allow_networks: prefixes outside loopback, 198.18.0.0/15, documentation and private ranges that may be used.
        mtu: bytes of an IP packet, in place of the links' MTU; None: the links'.
    """

    topology: str | None = None
    lab: str | None = None
    allow_networks: tuple[str, ...] = ()
    mtu: Annotated[int, Meta(ge=576, le=65_535)] | None = None
    transport: Transport = Transport()


class Device(_Section, frozen=True, kw_only=True):
    """The device under test.

    Attributes:
        profile: firmware profile, by name or file, for the length of the run; None: a clean device.
        counters_every_s: period between readings of its counters; None: 1.
    """

    profile: str | None = None
    counters_every_s: Annotated[float, Meta(ge=0.02, le=3600)] | None = None


class Agents(_Section, frozen=True, kw_only=True):
    """The processes that play the ranks.

    Attributes:
        count: processes on this host; None: one per core.
        by_hand: start none; all agents are started by hand and connect.
        listen: HOST:PORT or unix:PATH where they connect.
        join_timeout_s: how long to wait for them; None: 60.
        identity: file of `charkha agent certs issue`, which protects the control stream.
        token_file, tls_cert, tls_key, tls_ca: other files that do.
        insecure: control may leave this machine unprotected.
    """

    count: Count | None = None
    by_hand: bool = False
    listen: str | None = None
    join_timeout_s: Seconds | None = None
    token_file: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None
    tls_ca: str | None = None
    identity: str | None = None
    insecure: bool = False


FILES_OF_AGENTS = ("token_file", "tls_cert", "tls_key", "tls_ca", "identity")
"""Attributes of Agents that are paths."""


class Observe(_Section, frozen=True, kw_only=True):
    """Reports and telemetry of the run.

    Attributes:
        report: write report.html at the end.
        mqtt: URL of a broker.
        metrics: [HOST:]PORT of a Prometheus endpoint.
        calibration: file of `charkha agent calibrate`; None: this host's own, if any.
        expect: rules file for the verdict, or the name of shipped rules; None: no verdict.
        record_steps: "worst": every transfer of the slowest instance of each class; N: of every Nth instance of an
            iteration, of others in each; None: none.
    """

    report: bool = True
    mqtt: str | None = None
    metrics: str | None = None
    calibration: str | None = None
    expect: str | None = None
    record_steps: Annotated[int, Meta(ge=1, le=LARGEST_COUNT)] | Literal["worst"] | None = None


class Campaign(_Section, frozen=True, kw_only=True):
    """The same run several times, for `charkha compare`.

    Attributes:
        repeat: runs per profile; "auto": as many as the classes of the workload need.
        profiles: firmware profiles that take turns, A B A B; empty: the run's own.
    """

    repeat: Annotated[int, Meta(ge=1, le=999)] | Literal["auto"] = AUTO
    profiles: tuple[str, ...] = ()


class Experiment(_Section, frozen=True, kw_only=True):
    """A run, a campaign of runs, or a session of several jobs at once, as a value.

    Attributes:
        charkha: version of this format.
        jobs: several are played at once, each as a run with its own folder.
        flows: tests with peers alongside the jobs.
        background: traffic between hosts of the topology alongside the jobs.
        timeout_s: the run ends when nothing moves for this long; None: 60.
        seed: random seed; None: 0.
        campaign: None: one run.
    """

    charkha: int = VERSION
    jobs: tuple[Job, ...]
    flows: tuple[Flow, ...] = ()
    background: tuple[Background, ...] = ()
    network: Network = Network()
    device: Device = Device()
    agents: Agents = Agents()
    observe: Observe = Observe()
    timeout_s: Seconds | None = None
    seed: Annotated[int, Meta(ge=0)] | None = None
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
        )

    def to_plain(self) -> dict[str, Any]:
        """The spec as plain values (dict, list, str, int, float, bool), for YAML, JSON and the manifest."""
        plain: dict[str, Any] = _without_empty(msgspec.to_builtins(self))
        return {"charkha": self.charkha} | plain


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
    number, _, of = text.partition("/")
    if not (number.isdecimal() and of.isdecimal() and 1 <= int(number) <= int(of)):
        raise ValueError(f"{key}: {text[:40]!r}: write 1/2 or 2/2, for example")
    return int(number) - 1, int(of)


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


def parse_factor(text: str) -> Fraction:
    """A factor from 1e-9 to 1e9: `0.01`, `1/64`.

    Raises:
        ValueError: not such a factor.
    """
    problem = f"{text[:40]!r}: give a factor from 1e-9 to 1e9, such as 0.01 or 1/64"
    try:
        # A float accepts any exponent; a Fraction would expand it.
        value = Fraction(text) if "/" in text or 0 < float(text) <= LARGEST_FACTOR else Fraction(0)
    except (ValueError, ZeroDivisionError) as error:
        raise ValueError(problem) from error
    if not Fraction(1, LARGEST_FACTOR) <= value <= LARGEST_FACTOR:
        raise ValueError(problem)
    return value


def parse_names(text: str) -> list[str]:
    """Names with commas between them: `fw-a,fw-b`.

    Raises:
        ValueError: one is empty.
    """
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise ValueError(f"{text!r}: separate profiles by commas, as in fw-a,fw-b")
    return names


def parse_ratio(text: str) -> int | float:
    """The ratio of one size of a sweep to the one before: above 1 and at most 1e9, as 2 or 1.5.

    Raises:
        ValueError: not such a number.
    """
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 1 < value <= LARGEST_FACTOR:
        raise ValueError(f"{text!r}: give a factor above 1, such as 2 or 1.5")
    return int(value) if value.is_integer() else value


def parse_message_bytes(text: str) -> int:
    """Payload of a message, bytes: `64K`, `4M`.

    Raises:
        ValueError: not a size from 1 byte to 1 GiB.
    """
    size_bytes = parse_size(text)
    if not 1 <= size_bytes <= LARGEST_MESSAGE_BYTES:
        raise ValueError(f"{text} is outside 1 byte to 1 GiB")
    return size_bytes


def parse_compute(text: str) -> str:
    """`replay`, `skip`, or a factor on compute time.

    Raises:
        ValueError: none of them.
    """
    if text in ("replay", "skip"):
        return text
    try:
        return str(parse_factor(text))
    except ValueError as error:
        raise ValueError(f"{text!r}: give replay, skip, or a factor for compute time") from error


def parse_start(text: str) -> str:
    """When a job begins after the session began: `3ms`, `+3ms`, `0`.

    Raises:
        ValueError: not such a time.
    """
    text = text.strip().removeprefix("+")
    text = "0us" if text == "0" else text
    parse_duration(text)
    return text


def _plain(value: Plain) -> str | int:
    """One spelling per value, whether it came from YAML (`off` is a boolean there) or from the command line."""
    if isinstance(value, bool):
        return "on" if value else "off"
    text = str(value)
    return int(text) if text.lstrip("-").isdecimal() else text
