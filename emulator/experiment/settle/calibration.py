"""The calibration that applies to a run: of this host, topology and transport."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from emulator.errors import InputError
from emulator.experiment.settle.defaults import Resolved
from emulator.experiment.spec.spec import Observe
from emulator.results.statistics.calibration import Calibration, default_path, expired, read_calibration
from emulator.topology.model import Topology

Deciding = dict[str, str | int | float | bool | None]


def calibration_of(
    observe: Observe, resolved: Resolved, topology: Topology, *, notify: Callable[[str], None]
) -> Mapping[str, Any]:
    """The calibration as the manifest stores it; empty if there is none.

    Raises:
        InputError: the file that the experiment names cannot be used, or belongs to another host.
    """
    requested = None if observe.calibration is None else Path(observe.calibration)
    path = requested or default_path(topology.digest)
    if requested is None and not path.exists():
        return {}
    found = _read(path, is_requested=requested is not None, notify=notify)
    if found is None:
        return {}
    parameters = deciding_parameters(resolved)
    cost = found.cost_of(resolved.transport.name, parameters)
    if cost is None:
        given = ", ".join(f"{name} {value}" for name, value in parameters.items())
        notify(f"{path}: has no {resolved.transport.name} with {given}: nothing is marked tester-limited")
        return {}
    stored = {
        "file": str(path),
        "created": found.created,
        "where": found.where,
        "transport": cost.transport,
        "parameters": dict(cost.parameters),
        "ranks": cost.ranks,
        "rates": [list(one) for one in cost.rates],
        "step_ns": cost.step_ns,
        "timer_ns": found.timer.p50_ns,
        "closure": [{"name": one.name, "inside": one.is_inside} for one in found.closure],
    }
    if problem := expired(stored, datetime.now().astimezone().isoformat()):
        notify(f"{path}: {problem}: run `charkha agent calibrate` again")
    return stored


def deciding_parameters(resolved: Resolved) -> Deciding:
    """The settings that determine what the transport costs the tester."""
    parameters: Deciding = {"message_bytes": resolved.message_bytes}
    if resolved.roce is not None:
        parameters["roce.path_mtu"] = resolved.roce.path_mtu
    return parameters


def _read(path: Path, *, is_requested: bool, notify: Callable[[str], None]) -> Calibration | None:
    found = read_calibration(path)
    if found.is_of_this_host:
        return found
    problem = "was made with a different host, kernel or version: run `charkha agent calibrate` again"
    if is_requested:
        raise InputError(f"{path}: {problem}")
    notify(f"{path}: {problem}")
    return None
