"""Kinds of flows, each loaded by its name: few runs have flows.

To add one: a module with a function `make` that returns a FlowActor, its name here, and a section in run specs.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING

from emulator.control.flows import FlowTask
from emulator.errors import RemoteProtocolError

if TYPE_CHECKING:
    from agents.flows.base import FlowActor

KINDS: Mapping[str, str] = {
    "perftest": "agents.flows.perftest",
    "background": "agents.flows.background.actor",
}


def make_actor(task: FlowTask, device: str | None) -> FlowActor:
    """The actor of a flow.

    Args:
        task: what to play.
        device: interface to bind to; None: any.

    Raises:
        RemoteProtocolError: the controller knows kinds that this agent does not, or describes it wrongly.
    """
    if task.kind not in KINDS:
        raise RemoteProtocolError(f"{task.title}: this agent plays only flows of kind {', '.join(KINDS)}")
    try:
        actor: FlowActor = import_module(KINDS[task.kind]).make(task, device)
    except ValueError as error:
        raise RemoteProtocolError(f"{task.title}: the controller's description is invalid: {error}") from error
    return actor
