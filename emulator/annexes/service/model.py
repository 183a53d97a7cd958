"""What the service and its clients say to each other, as values; the types are the schema of the HTTP interface."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

from msgspec import Meta

from emulator.errors import InputError
from emulator.schema import Section

LARGEST_SPEC_BYTES = 256 << 10
LARGEST_RULES_BYTES = 64 << 10
MOST_FILES = 1000
"""Of a trace, and rules of a user."""
MOST_REPEATS = 99
MOST_COMPARED = 200
"""Runs in a comparison."""

Name = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=60)]
Text = Annotated[str, Meta(max_length=300)]
RunId = Annotated[int, Meta(ge=1, le=1 << 53)]
Choice = Annotated[str, Meta(max_length=400)] | None


class Refusal(InputError):
    """The service refuses a request; `status` is that of HTTP."""

    def __init__(self, problem: str, *, status: int = 400) -> None:
        super().__init__(problem)
        self.status = status


class Role(StrEnum):
    """What a user may do; each role includes those before it."""

    VIEWER = "viewer"
    """Looks at everything but the list of users."""
    OPERATOR = "operator"
    """Starts and cancels runs of their own, and reserves devices."""
    ADMIN = "admin"
    """Adds users and devices, and cancels runs and reservations of everybody."""

    def includes(self, other: Role) -> bool:
        """Whether it allows what another role allows."""
        return list(Role).index(self) >= list(Role).index(other)


class State(StrEnum):
    """Where a run is."""

    WAITING = "waiting"
    RUNNING = "running"
    COMPLETE = "complete"
    FAILED = "failed"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"
    """The service ended while it was playing."""

    @property
    def is_over(self) -> bool:
        """It does not change any more."""
        return self not in (State.WAITING, State.RUNNING)


class Nothing(Section, frozen=True, kw_only=True):
    """A request or an answer without content."""


class User(Section, frozen=True, kw_only=True):
    """Somebody who may use the service."""

    name: Name
    role: Role


class Token(Section, frozen=True, kw_only=True):
    """A user's new token. It is shown once: the service keeps only its hash."""

    name: str
    role: Role
    token: str


class UserName(Section, frozen=True, kw_only=True):
    """Names a user."""

    name: Name


class Dut(Section, frozen=True, kw_only=True):
    """A device under test: what one run at a time may use.

    Attributes:
        topologies: stored topologies that lead through it, each of one device only; its runs use no other. Empty:
            those of loopback addresses.
        spec: part of a run spec that holds for all runs on it and overrides theirs, such as its agents.
    """

    name: Name
    about: Text = ""
    topologies: tuple[str, ...] = ()
    spec: Mapping[str, Any] = {}


class DutName(Section, frozen=True, kw_only=True):
    """Names a device."""

    dut: Name


class StoredFile(Section, frozen=True, kw_only=True):
    """A file or folder that a run spec may name."""

    name: str
    about: str = ""


class Stored(Section, frozen=True, kw_only=True):
    """What run specs may name; the files are the source, the service only lists them."""

    traces: tuple[StoredFile, ...]
    topologies: tuple[StoredFile, ...]
    profiles: tuple[StoredFile, ...]
    suites: tuple[StoredFile, ...]
    rules: tuple[StoredFile, ...]


class Upload(Section, frozen=True, kw_only=True):
    """A trace of a user's own; it is stored as USER/NAME. Its files, .et files and the group file, follow."""

    name: Name


class Rules(Section, frozen=True, kw_only=True):
    """Rules of a user's own; they are stored as USER/NAME.

    Attributes:
        text: a rules file, YAML.
    """

    name: Name
    text: Annotated[str, Meta(max_length=LARGEST_RULES_BYTES)]


class Compose(Section, frozen=True, kw_only=True):
    """A choice of what to play: a stored trace or suite, or a bench; on a topology, with a profile.

    Attributes:
        bench: a collective, or `pairs`; it needs `ranks`.
        sizes: of a bench, `64K,1M`; None: as `charkha bench` has them.
        vary: a setting and its values, `qps=1,2,4`: a run spec for each.
        expect: rules: `example`, `USER/NAME` of stored ones, or `SUITE/CASE`. Cases of a suite have their own.
        topology, profile: None: loopback, a clean device.
    """

    trace: Choice = None
    suite: Choice = None
    bench: Choice = None
    ranks: Annotated[int, Meta(ge=2, le=1_000_000)] | None = None
    sizes: Choice = None
    vary: Choice = None
    expect: Choice = None
    topology: Choice = None
    profile: Choice = None
    iterations: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None


class Composed(Section, frozen=True, kw_only=True):
    """Run specs of a choice.

    Attributes:
        specs: name → YAML: one of a trace or bench, or one for each value; one per case of a suite.
        left_out: cases that are more than one run, each with its reason.
    """

    specs: Mapping[str, str]
    left_out: tuple[str, ...] = ()


class Submit(Section, frozen=True, kw_only=True):
    """A run spec to be played.

    Attributes:
        spec: as YAML; it names stored files, by name or by path.
        name: for lists; "": that of the workload.
        repeat: how many runs.
    """

    dut: Name
    spec: Annotated[str, Meta(max_length=LARGEST_SPEC_BYTES)]
    name: Text = ""
    repeat: Annotated[int, Meta(ge=1, le=MOST_REPEATS)] = 1


class RunName(Section, frozen=True, kw_only=True):
    """Names a run."""

    run: RunId


class Progress(Section, frozen=True, kw_only=True):
    """How far a run is that plays.

    Attributes:
        done: measured iterations that all ranks have completed.
        planned: measured iterations in all.
        left_s: as long as the others take at the pace so far, s; None before the first is complete.
    """

    done: int
    planned: int
    left_s: float | None = None


class Run(Section, frozen=True, kw_only=True):
    """A run: waiting, running, or over.

    Attributes:
        series: the same for runs of the same spec; profile and seed do not count.
        profile: firmware profile of its spec.
        reason: why it did not complete.
        verdict: PASS, FAIL, TESTER-LIMITED or UNDECIDED, if its spec has rules.
        progress: of its job that ends last, while it plays.
    """

    id: int
    dut: str
    user: str
    name: str
    state: State
    series: str
    profile: str | None = None
    submitted: datetime
    started: datetime | None = None
    ended: datetime | None = None
    reason: str | None = None
    verdict: str | None = None
    progress: Progress | None = None


class RunQuery(Section, frozen=True, kw_only=True):
    """Selects runs, newest first; None selects all. `name` is a part of it; `before` is an id: for the next page."""

    dut: Name | None = None
    user: Name | None = None
    name: Text | None = None
    profile: Text | None = None
    state: State | None = None
    series: Name | None = None
    before: RunId | None = None
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100


class Judge(Section, frozen=True, kw_only=True):
    """A run that is judged again; without any rules, by its own, or by the example.

    Attributes:
        expect: rules, as in `Compose`.
        rules: a rules file, YAML.
    """

    run: RunId
    expect: Choice = None
    rules: Annotated[str, Meta(max_length=LARGEST_RULES_BYTES)] | None = None


class Reserve(Section, frozen=True, kw_only=True):
    """A time in which a device plays only runs of one user; times have a zone."""

    dut: Name
    begin: Annotated[datetime, Meta(tz=True)]
    end: Annotated[datetime, Meta(tz=True)]


class Reservation(Section, frozen=True, kw_only=True):
    """A reservation."""

    id: int
    dut: str
    user: str
    begin: datetime
    end: datetime


class ReservationName(Section, frozen=True, kw_only=True):
    """Names a reservation."""

    reservation: RunId


class CompareQuery(Section, frozen=True, kw_only=True):
    """Runs that repeat each other, against others."""

    baseline: Annotated[Sequence[RunId], Meta(min_length=1, max_length=MOST_COMPARED)]
    other: Annotated[Sequence[RunId], Meta(min_length=1, max_length=MOST_COMPARED)]
    force: bool = False


class TrendQuery(Section, frozen=True, kw_only=True):
    """The complete runs of one spec on one device."""

    dut: Name
    series: Name


class TrendPoint(Section, frozen=True, kw_only=True):
    """The time of one class in one run, ns; the interval is that of this run, not of the next one."""

    run: int
    started: datetime
    firmware: str | None
    kind: str
    samples: int
    p50_ns: float | None
    low_ns: float | None
    high_ns: float | None


class Event(Section, frozen=True, kw_only=True):
    """What happened to a run: a line of its log, or its new state or progress."""

    log: str | None = None
    run: Run | None = None
