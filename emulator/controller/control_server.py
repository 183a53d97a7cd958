"""The control server of a run: gRPC on a Unix socket of its own and, for other machines, on an address."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

import grpc

from emulator.controller.grpc_output import print_no_tracebacks
from emulator.controller.listening import Listening
from emulator.controller.service import SERVER_OPTIONS, AgentListener, ControlService
from emulator.errors import HostError

SOCKET_PATH_BYTES = 107
_GRACE_S = 0.3


@contextlib.asynccontextmanager
async def serve_control(
    listener: AgentListener, target: str, *, token: str, run_id: str, listening: Listening | None = None
) -> AsyncIterator[None]:
    """Serve the control stream until the context is left.

    Args:
        listener: decides about agents.
        target: `unix:PATH`, for agents of this host.
        token: that they present.
        run_id: of the run.
        listening: address and token for agents of other machines.

    Raises:
        HostError: the path is too long for a socket, or the address cannot be had.
    """
    if len(target.removeprefix("unix:").encode()) > SOCKET_PATH_BYTES:
        raise HostError(f"{target} is too long for the name of a socket: set TMPDIR to a shorter path")
    print_no_tracebacks()
    server = grpc.aio.server(options=SERVER_OPTIONS)
    tokens = [token] if listening is None else [token, listening.token or ""]  # none: only at a Unix socket
    service = ControlService(listener, tokens=tokens, run_id=run_id)
    server.add_generic_rpc_handlers((service.handler(),))
    server.add_insecure_port(target)
    if listening is not None:
        listening.add_to(server)
    await server.start()
    try:
        yield
    finally:
        service.release()
        await server.stop(grace=_GRACE_S)
