"""The HTTP interface of Open Traffic Generator below /otg/DUT: the location that a snappi client is given."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from aiohttp import hdrs, web

from emulator.annexes.service.http import Handler, Routes, object_of, user
from emulator.annexes.service.model import Refusal, Role, User
from emulator.annexes.service.otg.driving import Driving
from emulator.annexes.service.otg.model import MODEL_VERSION, Plain
from emulator.errors import EmulatorError
from emulator.version import VERSION

PREFIX = "/otg/{dut}"
_BYTES = "application/octet-stream"
Operation = Callable[[User, str, Any], Awaitable[Plain]]


def add_otg(routes: Routes) -> None:
    """Add the routes. Users are known by their tokens, also as the password of HTTP Basic: snappi sends no other."""
    driving = Driving(routes.service)

    async def get_config(user: User, dut: str, document: None) -> Plain:
        return await driving.get_config(user, dut)

    async def get_version(user: User, dut: str, document: None) -> Plain:
        return {"api_spec_version": MODEL_VERSION, "sdk_version": "", "app_version": VERSION}

    operations: tuple[tuple[str, str, Operation, Role], ...] = (
        ("POST", "/config", driving.set_config, Role.OPERATOR),
        ("GET", "/config", get_config, Role.OPERATOR),
        ("POST", "/control/state", driving.set_control_state, Role.OPERATOR),
        ("POST", "/monitor/metrics", driving.get_metrics, Role.OPERATOR),
        ("GET", "/capabilities/version", get_version, Role.VIEWER),
    )
    for method, path, operation, role in operations:
        routes.add(method, PREFIX + path, _answering(operation), role=role, takes_basic=True)


def _answering(operation: Operation) -> Handler:
    async def handle(request: web.Request) -> web.StreamResponse:
        kind = _BYTES if request.content_type == _BYTES and request.method == "POST" else "application/json"
        try:
            document = await object_of(request) if request.method == "POST" else None
            answer = await operation(user(), request.match_info["dut"], document)
        except EmulatorError as error:
            status = error.status if isinstance(error, Refusal) else 400
            problem = {"code": status, "kind": "validation", "errors": [str(error)]}
            return web.json_response(problem, status=status)
        return web.Response(body=msgspec.json.encode(answer), headers={hdrs.CONTENT_TYPE: kind})

    return handle
