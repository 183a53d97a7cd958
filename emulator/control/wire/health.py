"""gRPC's health check: the one thing that a stranger may ask of a controller. It says that somebody serves."""

from __future__ import annotations

from typing import Any

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

_HEALTH: Any = health  # the published type information lacks aio


async def add_health_check(server: grpc.aio.Server) -> None:
    """Answer it from the moment the server starts."""
    servicer = _HEALTH.aio.HealthServicer()
    await servicer.set(health.OVERALL_HEALTH, health_pb2.HealthCheckResponse.SERVING)
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
