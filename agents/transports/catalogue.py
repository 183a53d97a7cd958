"""Transports by the name used on the command line."""

from __future__ import annotations

from agents.transports.base import Transport
from agents.transports.zmq import ZmqTransport
from emulator.errors import PlanError

TRANSPORTS = ("zmq",)


def make_transport(name: str, *, message_bytes: int, run: str) -> Transport:
    """A transport for the ranks of one agent; `run` tells agents of this run from strangers.

    Raises:
        PlanError: no such transport.
    """
    if name == "zmq":
        return ZmqTransport(message_bytes=message_bytes, run=run)
    raise PlanError(f"there is no transport {name!r}; there are: {', '.join(TRANSPORTS)}")
