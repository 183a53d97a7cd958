"""Calibration of the tester: what it costs by itself on this host, as a file. See docs/calibrate.md."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from emulator.errors import InputError
from emulator.host.files import read_bounded, write_json, writing
from emulator.results.run_folder.manifest import software_versions
from emulator.schema import decode, parse_json

FORMAT = "charkha-calibration"
VERSION = 1
EXPIRES_DAYS = 30
"""A calibration that is older when a run begins is used, and said to have expired."""
LOOPBACK, CABLES = "loopback", "cables between namespaces"
_CPU_INFO = Path("/proc/cpuinfo")
_MACHINE_ID = Path("/etc/machine-id")


@cache
def host_facts() -> Mapping[str, str]:
    """What the speed of a tester depends on."""
    return {
        "machine": next(iter(_lines(_MACHINE_ID)), "unknown"),
        "cpu": next((line.partition(":")[2].strip() for line in _lines(_CPU_INFO) if "model name" in line), "unknown"),
        "cpus": str(len(os.sched_getaffinity(0))),
        "kernel": platform.release(),
        **{name: software_versions()[name] for name in ("charkha", "build", "python", "numpy", "pyzmq")},
    }


def host_digest() -> str:
    """SHA-256 of the facts of this host, in hex."""
    return hashlib.sha256(json.dumps(host_facts(), sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class TransportCost:
    """What a transport costs: ranks in pairs, all active at once.

    Attributes:
        parameters: those that its cost depends on: message_bytes, and roce.path_mtu.
        rates: (bytes that a rank sends in a step, payload of all ranks together in bytes/s), ascending.
        step_ns: one step of a collective of almost no bytes.
        message_ns: step_ns / ranks: the cost of a message on this machine.
        variation: coefficient of variation of the largest collectives.
    """

    transport: str
    parameters: Mapping[str, str | int | float | bool | None]
    ranks: int
    agents: int
    rates: Sequence[tuple[int, float]]
    step_ns: float
    message_ns: float
    variation: float | None

    @property
    def rate_bytes_per_s(self) -> float:
        """The highest rate."""
        return max((rate for _, rate in self.rates), default=0.0)


@dataclass(frozen=True, slots=True)
class TimerJitter:
    """How late alarms are, ns: alarms 500 µs apart on an idle event loop."""

    alarms: int
    p50_ns: int
    p99_ns: int
    max_ns: int


@dataclass(frozen=True, slots=True)
class AgentClock:
    """Offset of an agent's clock from the controller's; the error is 0 if they share a clock."""

    agent: str
    offset_ns: int
    error_ns: int


@dataclass(frozen=True, slots=True)
class ClosureTest:
    """Something known that was planted in a lab, and what a run said of it.

    Attributes:
        name: what it is: rate, loss, outage, delay, stamps.
        unit: of the values, see metric.Unit.
        planted: None: nothing could be.
        found: None: not measured.
        expanded: U of `found`, k = 2; None: not stated.
        why: why it is not measured, or not stated; "" if both are.
    """

    name: str
    unit: str
    planted: float | None
    found: float | None
    expanded: float | None
    why: str = ""

    @property
    def is_inside(self) -> bool | None:
        """Whether what was planted lies within found ± U; None: not known."""
        if self.planted is None or self.found is None or self.expanded is None or self.why:
            return None
        return abs(self.found - self.planted) <= self.expanded


@dataclass(frozen=True, slots=True)
class Calibration:
    """What the tester costs on a host.

    Attributes:
        created: ISO 8601 with time zone.
        where: LOOPBACK, or CABLES: as in a lab but without switches and rates.
        topology, topology_digest: the topology file; None for loopback.
        closure: what was planted and found again; empty: nothing was planted.
        host, host_digest: the host that the numbers are valid for.
    """

    created: str
    where: str
    topology: str | None
    topology_digest: str | None
    transports: tuple[TransportCost, ...]
    timer: TimerJitter
    clocks: tuple[AgentClock, ...] = ()
    closure: tuple[ClosureTest, ...] = ()
    host: Mapping[str, str] = field(default_factory=host_facts)
    host_digest: str = field(default_factory=host_digest)

    @property
    def is_of_this_host(self) -> bool:
        """Whether host and software are the same as then."""
        return self.host_digest == host_digest()

    def cost_of(self, transport: str, parameters: Mapping[str, object]) -> TransportCost | None:
        """The cost of a transport with these parameters; None if it was not measured with them."""
        for cost in self.transports:
            if cost.transport == transport and all(parameters.get(k) == v for k, v in cost.parameters.items()):
                return cost
        return None


def expired(calibration: Mapping[str, Any], at: str) -> str:
    """`the calibration expired: made 2026-01-02, 45 days before`; "" if it has not, or if there is none.

    Args:
        calibration: as a manifest stores it.
        at: when the run began, ISO 8601.
    """
    made = calibration.get("created")
    began = datetime.fromisoformat(at).astimezone()
    days = (began - datetime.fromisoformat(made).astimezone()).days if isinstance(made, str) else 0
    return f"the calibration expired: made {str(made)[:10]}, {days} days before" if days > EXPIRES_DAYS else ""


def default_path(topology_digest: str | None) -> Path:
    """Where `calibrate` writes its file and `run` looks for it: $XDG_STATE_HOME/charkha, one file per topology."""
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    suffix = f"-{topology_digest[:16]}" if topology_digest else ""
    return state / "charkha" / f"calibration{suffix}.json"


def to_json(calibration: Calibration) -> dict[str, Any]:
    """The content of its file."""
    return {"format": FORMAT, "version": VERSION, **dataclasses.asdict(calibration)}


def write_calibration(path: Path, calibration: Calibration) -> None:
    """Write the file; an existing one is replaced at once.

    Raises:
        HostError: it cannot be written.
    """
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, to_json(calibration))


def read_calibration(path: Path) -> Calibration:
    """Read the file.

    Raises:
        InputError: it cannot be read, or is not a calibration of this version.
    """
    try:
        document = parse_json(read_bounded(path))
        if document["format"] != FORMAT or document["version"] != VERSION:
            raise ValueError(f"format {document['format']}, version {document['version']}")
        found = decode(document, Calibration)
        datetime.fromisoformat(found.created).timestamp()
        return found
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); `charkha agent calibrate` makes one") from error
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: is not a calibration ({error}); `charkha agent calibrate` makes one") from error


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
