"""The manifest: everything about a run except its tables, stored as JSON. docs/results.md describes the fields."""

from __future__ import annotations

import dataclasses
import json
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias

from msgspec import Meta

from emulator.control.parameter import Parameter, Setting
from emulator.errors import ResultError
from emulator.host.files import read_bounded
from emulator.results.run_folder.schema import FORMAT_VERSION
from emulator.results.run_folder.stored import Count, Index, Positive, StoredManifest, TimeNs, migrated
from emulator.schema import SchemaProblem, decode, json_schema, parse_json
from emulator.trace.meaning.imported import ImportFacts
from emulator.version import BUILD, VERSION

MANIFEST = "manifest.json"
PARTIAL_MANIFEST = "manifest.partial.json"
CRASHED = "the run ended without closing its folder"
BROKEN = "not all ranks completed it"
SESSION = "session.json"
REPORT = "report.html"


OBSERVATION_POINT = "endpoint software boundary"
KERNEL_OBSERVATION_POINT = "kernel's receive time stamps"
RUNNING: Final = "running"
COMPLETE: Final = "complete"
ABORTED: Final = "aborted"
INTERRUPTED: Final = "interrupted"
"""The command that played it ended without closing its folder: it was killed, or could not write."""
Status: TypeAlias = Literal["running", "complete", "aborted", "interrupted"]
LAST_ARRIVAL: Final = "last_arrival"
LAST_DONE: Final = "last_done"
"""Until format version 2: acknowledgements of the last sends counted."""
CctEnd: TypeAlias = Literal["last_arrival", "last_done"]
Answer: TypeAlias = Literal["PASS", "FAIL", "TESTER-LIMITED", "UNDECIDED"]
_LIBRARIES = ("numpy", "pyarrow", "pyzmq", "grpcio", "protobuf")


@dataclass(frozen=True, slots=True)
class TraceFacts:
    """The trace that was played.

    Attributes:
        digest: SHA-256 of its files in rank order, in hex.
        imported: what the import guessed or dropped; None in runs written before it was stored.
    """

    path: str
    digest: str
    ranks: Annotated[int, Meta(ge=1, le=(1 << 31) - 1)]
    nodes: Count
    communication_nodes: Count
    imported: ImportFacts | None = None


@dataclass(frozen=True, slots=True)
class Scaling:
    """How the run differs from the trace.

    Attributes:
        bytes: factor on every size.
        compute: `replay`, `skip` or the factor on compute time.
        element_bytes: bytes per element of a trace that counts elements; None if it counts bytes.
    """

    bytes: Positive = 1.0
    compute: str = "replay"
    element_bytes: Count | None = None

    @property
    def is_scaled(self) -> bool:
        """Whether sizes or compute times differ from the trace."""
        return self.bytes != 1 or self.compute not in ("replay", "1", "1.0")


@dataclass(frozen=True, slots=True)
class Exclusion:
    """A measured iteration that does not count, and the reason."""

    iteration: int
    why: str


@dataclass(frozen=True, slots=True)
class Trials:
    """Numbers of iterations: `attempted` includes warm-up; `included` iterations make up the summary."""

    attempted: Count = 0
    warmup: Count = 0
    included: Count = 0
    excluded: tuple[Exclusion, ...] = ()


@dataclass(frozen=True, slots=True)
class TimeAxis:
    """The time axis of all timestamps.

    Attributes:
        offset_ns: the largest offset of an agent that was corrected.
        error_ns: largest error of a time difference between two agents.
    """

    source: str = "CLOCK_MONOTONIC of one host"
    offset_ns: TimeNs = 0
    error_ns: TimeNs = 0


@dataclass(frozen=True, slots=True)
class HostFacts:
    """An agent and where it ran.

    Attributes:
        agent: its name.
        ranks: number of ranks that it played.
        facts: kernel, CPU and the like.
        nics: interface, driver, firmware, speed_bps and mtu of every interface of its ranks; None if unknown.
        transport: facts from the transport at the end: granted buffers, offloads, drops by reason.
        clock_offset_ns, clock_error_ns: against the controller's clock.
        peak_rss_bytes: memory of the agent's process.
        post_lateness_median_ns: delay between the time that a communication was ready and its post.
        steal_fraction: fraction of CPU time that the hypervisor gave to other virtual machines; None if unknown.
        core_wait_fraction: fraction of the time that the agent wanted a core and had none; None if unknown.
        late_starts: measured iterations that the agent was told of after they should have begun; None if unknown.
    """

    agent: str
    ranks: Index = 0
    facts: Mapping[str, str] = field(default_factory=dict)
    nics: tuple[Mapping[str, Any], ...] = ()
    transport: Mapping[str, Parameter] = field(default_factory=dict)
    clock_offset_ns: TimeNs = 0
    clock_error_ns: TimeNs = 0
    peak_rss_bytes: Count | None = None
    post_lateness_median_ns: TimeNs | None = None
    steal_fraction: float | None = None
    core_wait_fraction: float | None = None
    late_starts: Count | None = None


@dataclass(frozen=True, slots=True)
class RunFigures:
    """What lists show of a run, which would take its tables to compute.

    Attributes:
        verdict: by the rules that it was played with; None: it had none.
        jct_ns: job completion time of an iteration, median; None: no iteration was completed.
        lost: what the device lost, or else the packets that did not arrive; None: neither is known.
    """

    verdict: Answer | None = None
    jct_ns: TimeNs | None = None
    lost: Count | None = None


@cache
def software_versions() -> Mapping[str, str]:
    """Versions of Charkha, Python and the libraries that affect the numbers."""
    found = {"charkha": VERSION, "build": BUILD, "python": platform.python_version()}
    return found | {name: _version(name) for name in _LIBRARIES}


def _version(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "not installed"


@dataclass(frozen=True, slots=True)
class Manifest:
    """Everything about a run that is not a table.

    Attributes:
        run_id: unique.
        created: start of the run, ISO 8601 with zone.
        command_line: as given.
        topology: name, source, hosts and placement.
        dut: identity of the device under test: kind, vendor, model, firmware, nodes, ports, and its `profile`
            (name, digest, rules), see docs/profiles.md.
        parameters: option name → value in effect.
        calibration: what the tester does without a device, from `charkha agent calibrate`; empty if unknown.
        roofline_ns: an iteration in which every collective takes its ideal time; None if ports have no rate.
        sequential_roofline_ns: BMWG's C + 8 · S · factor / rate.
        warnings: warning → number of occurrences.
        spec: the run spec, as plain values; None in runs written before it was stored.
        settings: every setting with its unit and source.
        cct_until: what ends a collective in its times.
        figures: for lists; None in runs written before they were stored, and while the run is played.
        status: running, complete, aborted or, as read, interrupted; `reason` is why it is neither of the first two.
    """

    run_id: str
    created: str
    command_line: tuple[str, ...]
    seed: int
    trace: TraceFacts
    topology: Mapping[str, Any] = field(default_factory=dict)
    dut: Mapping[str, Any] = field(default_factory=dict)
    hosts: tuple[HostFacts, ...] = ()
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    scaling: Scaling = Scaling()
    trials: Trials = Trials()
    clock: TimeAxis = TimeAxis()
    calibration: Mapping[str, Any] = field(default_factory=dict)
    roofline_ns: Count | None = None
    sequential_roofline_ns: Count | None = None
    warnings: Mapping[str, Count] = field(default_factory=dict)
    spec: Mapping[str, Any] | None = None
    settings: tuple[Setting, ...] = ()
    versions: Mapping[str, str] = field(default_factory=software_versions)
    observation_point: str = OBSERVATION_POINT
    cct_until: CctEnd = LAST_ARRIVAL
    figures: RunFigures | None = None
    status: Status = RUNNING
    reason: str | None = None
    format_version: int = FORMAT_VERSION


def to_json(manifest: Manifest) -> str:
    """The content of the file."""
    return json.dumps(dataclasses.asdict(manifest), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def read_manifest(path: Path) -> Manifest:
    """Read a manifest of this format version or an older one. Unknown keys, from a later release, are ignored.

    Raises:
        ResultError: no such file, not a manifest, or one of a newer version.
    """
    document = migrated(_parsed(path), path=path, newest=FORMAT_VERSION)
    try:
        decode(document, StoredManifest)
        return decode(document, Manifest)
    except SchemaProblem as problem:
        raise ResultError(f"is not the manifest of a run ({problem})", path=path) from problem


def manifest_schema() -> dict[str, Any]:
    """The JSON Schema of a manifest, for other programs."""
    return json_schema(Manifest)


def _parsed(path: Path) -> dict[str, Any]:
    try:
        document = parse_json(read_bounded(path))
    except OSError as error:
        raise ResultError(f"cannot be read ({error.strerror})", path=path) from error
    except SchemaProblem as error:
        raise ResultError(f"is not the manifest of a run ({error})", path=path) from error
    if not isinstance(document, dict):
        raise ResultError("is not the manifest of a run", path=path)
    return document
