"""Kinds of flows. To add one: implement FlowActor, name it here, and give it a section in run specs."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from agents.flows.base import FlowActor
from agents.flows.perftest import make_perftest
from emulator.control.flows import FlowTask
from emulator.errors import RemoteProtocolError

Maker = Callable[[FlowTask, str | None], FlowActor]
"""Makes the actor of a flow; the second argument is the interface to bind to, None: any."""

KINDS: Mapping[str, Maker] = {"perftest": make_perftest}


def make_actor(task: FlowTask, device: str | None) -> FlowActor:
    """The actor of a flow.

    Raises:
        RemoteProtocolError: the controller knows kinds that this agent does not.
    """
    if task.kind not in KINDS:
        raise RemoteProtocolError(f"{task.title}: this agent plays flows of kind {', '.join(KINDS)} only")
    return KINDS[task.kind](task, device)
