"""What is known of the tester's own ceiling when a run begins."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from emulator.cli.options.roce import roce_options
from emulator.errors import InputError
from emulator.statistics.calibration import Calibration, default_path, read_calibration
from emulator.topology.model import Topology
from emulator.visible import visible


def calibration_of(args: argparse.Namespace, topology: Topology) -> Mapping[str, Any]:
    """For the manifest: the calibration of this host, topology and transport; empty where there is none.

    Raises:
        InputError: the file that `--calibration` names cannot be used, or is of another host.
    """
    asked: Path | None = args.calibration
    path = asked or default_path(topology.digest)
    if asked is None and not path.exists():
        return {}
    found = _read(path, is_asked_for=asked is not None)
    if found is None:
        return {}
    parameters = deciding_parameters(args)
    cost = found.cost_of(args.transport, parameters)
    if cost is None:
        told = ", ".join(f"{name} {value}" for name, value in parameters.items())
        _tell(path, f"has no {args.transport} with {told}: nothing is marked tester-limited")
        return {}
    return {
        "file": str(path),
        "created": found.created,
        "where": found.where,
        "transport": cost.transport,
        "parameters": dict(cost.parameters),
        "ranks": cost.ranks,
        "rates": [list(one) for one in cost.rates],
        "step_ns": cost.step_ns,
    }


def deciding_parameters(args: argparse.Namespace) -> dict[str, str | int | float | bool | None]:
    """What decides the cost of the chosen transport."""
    parameters: dict[str, str | int | float | bool | None] = {"message_bytes": args.message_bytes}
    effective = roce_options(args)[1]
    if "roce.path_mtu" in effective:
        parameters["roce.path_mtu"] = effective["roce.path_mtu"].value
    return parameters


def _read(path: Path, *, is_asked_for: bool) -> Calibration | None:
    found = read_calibration(path)
    if found.is_of_this_host:
        return found
    problem = "was made on another host, kernel or version: run `charkha calibrate` again"
    if is_asked_for:
        raise InputError(f"{path}: {problem}")
    _tell(path, problem)
    return None


def _tell(path: Path, problem: str) -> None:
    print(f"charkha: {visible(str(path))}: {problem}", file=sys.stderr)
