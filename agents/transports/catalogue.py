"""Loads a transport by its name.

Each transport is a folder of this package with a module `transport` that has a function `make`. Other rooms know
transports only through emulator/transports/registry.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from agents.transports.domains import with_domains
from emulator.transports.registry import transport_named

if TYPE_CHECKING:
    from agents.transports.base import Transport
    from emulator.control.conversation import DomainPlace
    from emulator.host.clock import Clock


def make_transport(
    name: str,
    *,
    message_bytes: int,
    run: str,
    seed: int = 0,
    options: Mapping[str, str] | None = None,
    devices: Mapping[str, str] | None = None,
    domains: Sequence[DomainPlace] = (),
    clock: Clock | None = None,
) -> Transport:
    """Create a transport for the ranks of one agent. Only the transport that is used is imported.

    Args:
        name: in the registry of transports.
        message_bytes: maximum payload per message.
        run: run id; messages of other runs are dropped.
        seed: random seed.
        options: of the transport, as text.
        devices: address → interface to bind its sockets to; other addresses may use any interface.
        domains: scale-up domains of the ranks, which keep to themselves what is sent inside.
        clock: of the domains.

    Raises:
        PlanError: there is no such transport, or it does not have such options.
    """
    module = import_module(f"agents.transports.{transport_named(name).name}.transport")
    made: Transport = module.make(
        message_bytes=message_bytes, run=run, seed=seed, options=options or {}, devices=devices or {}
    )
    if clock is None or not domains:
        return made
    return with_domains(made, domains, clock=clock, message_bytes=message_bytes)
