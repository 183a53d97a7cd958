"""The control server of a run: gRPC on a Unix socket and, for agents of other machines, on a network address."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
import traceback
from collections.abc import AsyncIterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from emulator.controller.roster.control_service import SERVER_OPTIONS, AgentListener, ControlService, Keys
from emulator.controller.roster.listen_address import ListenAddress
from emulator.controller.roster.stranger_limit import StrangerLimit
from emulator.controller.watchdog import check_periodically
from emulator.errors import HostError
from emulator.host.stderr_log import is_news

SOCKET_PATH_BYTES = 107
_GRACE_S = 0.3

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
    service = ControlService(listener, keys=_keys(token, listening), run_id=run_id)
    limit = None if listening is None or listening.is_unix else StrangerLimit(service.proved)
    most = [] if limit is None else [("grpc.max_allowed_incoming_connections", limit.most)]
    server = grpc.aio.server(options=[*SERVER_OPTIONS, *most])
    server.add_generic_rpc_handlers((service.handler(),))
    await add_health_check(server)
    server.add_insecure_port(target)
    port = 0 if listening is None else listening.add_to(server)
    await server.start()
    try:
        async with contextlib.nullcontext() if limit is None else _limited(limit, port):
            yield
    finally:
        service.release()
        await server.stop(grace=_GRACE_S)


@contextlib.asynccontextmanager
async def _limited(limit: StrangerLimit, port: int) -> AsyncIterator[None]:
    """Keep to the limit while the context is open."""

    def failed(error: BaseException) -> None:
        logger.warning("connections to the control address are not limited any more: %s", error)

    limiting = asyncio.create_task(check_periodically(partial(limit.enforce, port), failed=failed))
    try:
        yield
    finally:
        limiting.cancel()


def _keys(token: str, listening: ListenAddress | None) -> Keys:
    if listening is None:
        return Keys([token.encode()])
    other = listening.token or ""  # only a Unix socket, or certificates, may go without
    return Keys([token.encode(), other.encode()], listening.token, listening.signer(), listening.revoked())


def suppress_grpc_tracebacks() -> None:
    """Keep exceptions that are gRPC's own affair from stderr, whatever the program that plays a run does with its log.

    Its server prints one, and logs it as well, whenever a call is cancelled while it is being closed. Its poller raises
    one in the event loop, which asyncio logs. Users cannot do anything about either.
    """
    logging.getLogger("asyncio").addFilter(is_news)
    cygrpc = importlib.import_module("grpc._cython.cygrpc")
    if hasattr(cygrpc, "traceback"):  # private to gRPC; a version without it prints nothing this way
        vars(cygrpc)["traceback"] = SimpleNamespace(**{**vars(traceback), "print_exc": lambda *_, **__: None})


_HEALTH: Any = health  # the published type information lacks aio


async def add_health_check(server: grpc.aio.Server) -> None:
    """Answer it from the moment the server starts."""
    servicer = _HEALTH.aio.HealthServicer()
    await servicer.set(health.OVERALL_HEALTH, health_pb2.HealthCheckResponse.SERVING)
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
