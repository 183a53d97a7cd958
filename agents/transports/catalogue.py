"""Loads a transport by its name.

Each transport is a folder of this package with a module `transport` that has a function `make`. Other rooms know
transports only through emulator/transports/registry.py.
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
    """Create a transport for the ranks of one agent. Only the transport that is used is imported.

    Args:
        name: in the registry of transports.
        message_bytes: maximum payload per message.
        run: run id; messages of other runs are dropped.
        seed: random seed.
        options: of the transport, as text.
        devices: address → interface to bind its sockets to; other addresses may use any interface.

    Raises:
        PlanError: there is no such transport, or it does not have such options.
    """
    module = import_module(f"agents.transports.{transport_named(name).name}.transport")
    made: Transport = module.make(
        message_bytes=message_bytes, run=run, seed=seed, options=options or {}, devices=devices or {}
    )
    return made
