"""Transports by the name used on the command line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from emulator.errors import PlanError

if TYPE_CHECKING:
    from agents.transports.base import Transport

TRANSPORTS = ("roce", "zmq")
"""The first is the default."""


def make_transport(
    name: str,
    *,
    message_bytes: int,
    run: str,
    seed: int = 0,
    options: Mapping[str, str] | None = None,
    devices: Mapping[str, str] | None = None,
) -> Transport:
    """A transport for the ranks of one agent.

    Args:
        message_bytes: payload per message, at most.
        run: tells agents of this run from strangers.
        seed: random seed.
        options: of the transport, as text.
        devices: address → interface that its sockets are bound to; others may leave anywhere.

    Raises:
        PlanError: no such transport, or options it does not have.
    """
    # Only the transport that is used is loaded, and none where only names are wanted.
    if name == "roce":
        from agents.transports.roce.transport import RoceTransport
        from emulator.roce.options import RoceOptions

        chosen = RoceOptions.parse(options or {})
        return RoceTransport(message_bytes=message_bytes, options=chosen, seed=seed, run=run, devices=devices)
    if name != "zmq":
        raise PlanError(f"there is no transport {name!r}; there are: {', '.join(TRANSPORTS)}")
    if options:
        raise PlanError(f"the transport {name} has no options, but got {', '.join(options)}")
    from agents.transports.zmq import ZmqTransport

    return ZmqTransport(message_bytes=message_bytes, run=run, devices=devices)
