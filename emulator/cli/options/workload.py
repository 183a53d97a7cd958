"""The options of a workload, made from the fields of its description."""

from __future__ import annotations

import argparse
from enum import Enum
from typing import Any, TypeVar

from emulator.cli.options.converters import argument
from emulator.cli.parser import Group, Parser
from emulator.planner.workloads.options import WorkloadOption, workload_options

T = TypeVar("T")


def add_workload_options(parser: Parser, description: type) -> None:
    """Add an option for every field of the description, in groups by their titles."""
    groups: dict[str, Group] = {}
    for one in workload_options(description):
        title = one.facts.group
        if title not in groups:
            groups[title] = parser.add_argument_group(title)
        groups[title].add_argument(*one.flags, advanced=one.facts.is_advanced, help=one.text, **_settings(one))


def described_by(args: argparse.Namespace, description: type[T]) -> T:
    """The description that the arguments give.

    Raises:
        PlanError: they do not fit together.
    """
    return description(**{one.name: _value(one, args) for one in workload_options(description)})


def _settings(one: WorkloadOption) -> dict[str, Any]:
    if one.kind is bool:
        return {"dest": one.name, "action": "store_true"}
    settings: dict[str, Any] = {"metavar": one.facts.metavar, "type": one.kind}
    if one.is_named:
        settings |= {"dest": one.name, "required": one.is_required, "default": None if one.is_required else one.default}
    if one.facts.read is not None:
        settings["type"] = argument(one.facts.read)
    elif issubclass(one.kind, Enum):
        shown = None if one.facts.metavar == "N" else one.facts.metavar  # None: the choices
        settings |= {"type": str, "metavar": shown, "choices": [member.value for member in one.kind]}
    return settings


def _value(one: WorkloadOption, args: argparse.Namespace) -> Any:
    value = getattr(args, one.name)
    return one.kind(value) if issubclass(one.kind, Enum) else value
