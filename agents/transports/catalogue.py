"""Loads a transport by its name.

Each transport is a folder of this package whose module `transport` has a function `make`. The rest of Charkha knows it
from emulator/transports/registry.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING

from emulator.transports.registry import transport_named

if TYPE_CHECKING:
    from agents.transports.base import Transport


def make_transport(
    name: str,
    *,
    message_bytes: int,
    run: str,
    seed: int = 0,
    options: Mapping[str, str] | None = None,
    devices: Mapping[str, str] | None = None,
) -> Transport:
    """A transport for the ranks of one agent. Only the one that is used is imported.

    Args:
        name: in the registry of transports.
        message_bytes: payload per message, at most.
        run: sets agents of this run apart from others.
        seed: random seed.
        options: of the transport, as text.
        devices: address → interface that its sockets are bound to; others may leave by any interface.

    Raises:
        PlanError: no such transport, or options it does not have.
    """
    module = import_module(f"agents.transports.{transport_named(name).name}.transport")
    made: Transport = module.make(
        message_bytes=message_bytes, run=run, seed=seed, options=options or {}, devices=devices or {}
    )
    return made
