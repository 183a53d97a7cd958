"""The control server of a run: gRPC on a Unix socket and, for agents of other machines, on a network address."""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import time
import traceback
from collections.abc import AsyncIterator
from types import SimpleNamespace

import grpc

from emulator.control.wire.health import add_health_check
from emulator.controller.roster.control_service import SERVER_OPTIONS, AgentListener, ControlService, Keys
from emulator.controller.roster.listen_address import ListenAddress
from emulator.errors import HostError
from emulator.host.resources import raise_descriptors, reserve

SOCKET_PATH_BYTES = 107
_GRACE_S = 0.3
_HELD_DESCRIPTORS = 32
_QUIET_S = 60.0

logger = logging.getLogger(__name__)


@contextlib.asynccontextmanager
async def serve_control(
    listener: AgentListener, target: str, *, token: str, run_id: str, listening: ListenAddress | None = None
) -> AsyncIterator[None]:
    """Serve the control stream until the context is left.

    Args:
        listener: accepts or refuses agents, and receives what they send.
        target: `unix:PATH`, for agents of this host.
        token: that agents of this host know.
        run_id: sent to agents before they join.
        listening: address, token and identity for agents of other machines.

    Raises:
        HostError: the path is too long for a socket, or the address cannot be used.
    """
    if len(target.removeprefix("unix:").encode()) > SOCKET_PATH_BYTES:
        raise HostError(f"{target} is too long for a socket path: set TMPDIR to a shorter path")
    suppress_grpc_tracebacks()
    server = grpc.aio.server(options=SERVER_OPTIONS)
    service = ControlService(listener, keys=_keys(token, listening), run_id=run_id)
    server.add_generic_rpc_handlers((service.handler(),))
    await add_health_check(server)
    server.add_insecure_port(target)
    if listening is not None:
        listening.add_to(server)
    await server.start()
    try:
        yield
    finally:
        service.release()
        await server.stop(grace=_GRACE_S)


class DescriptorWatch:
    """Whether there are descriptors while agents connect: without one gRPC lets them wait, and tells nobody.

    Strangers at a network address may take all that there are, until their connections end. They do not end the run,
    and some are held back from them for the run itself.
    """

    def __init__(self, listening: ListenAddress | None) -> None:
        self._has_strangers = listening is not None and not listening.is_unix
        self._held = contextlib.ExitStack()
        self._said_s = -_QUIET_S
        if self._has_strangers and raise_descriptors() >= 4 * _HELD_DESCRIPTORS:
            for _ in range(_HELD_DESCRIPTORS):
                self._held.callback(os.close, os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))

    def check(self) -> None:
        """Look whether there is one.

        Raises:
            HostError: there is none, and this host's own agents have them.
        """
        try:
            reserve(descriptors=1)
        except HostError as error:
            if not self._has_strangers:
                raise
            if time.monotonic() - self._said_s >= _QUIET_S:
                self._said_s = time.monotonic()
                logger.warning("connections to the control address that send nothing hold all descriptors: %s", error)

    def release(self) -> None:
        """All agents are there: give back what was held for the run."""
        self._held.close()


def _keys(token: str, listening: ListenAddress | None) -> Keys:
    if listening is None:
        return Keys([token.encode()])
    other = listening.token or ""  # only a Unix socket, or certificates, may go without
    return Keys([token.encode(), other.encode()], listening.token, listening.signer(), listening.revoked())


def suppress_grpc_tracebacks() -> None:
    """Keep gRPC's server from printing the exceptions of its calls on stderr; it logs them as well.

    One is raised whenever a call is cancelled while it is being closed. Users cannot do anything about it.
    """
    cygrpc = importlib.import_module("grpc._cython.cygrpc")
    if hasattr(cygrpc, "traceback"):  # private to gRPC; a version without it prints nothing this way
        vars(cygrpc)["traceback"] = SimpleNamespace(**{**vars(traceback), "print_exc": lambda *_, **__: None})
