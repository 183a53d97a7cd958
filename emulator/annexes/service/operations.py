"""The operations of the service, each defined once: HTTP routes, OpenAPI and the client come from here.

Fields of a request are taken from the path, then from the query (GET, DELETE) or from a JSON body (POST).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec

from emulator.annexes.service import model
from emulator.annexes.service.model import Nothing, Role
from emulator.version import VERSION

Q = TypeVar("Q")
A = TypeVar("A")
PREFIX = "/api/v1"


@dataclass(frozen=True, slots=True)
class ServiceOperation(Generic[Q, A]):
    """An operation.

    Attributes:
        name: of the method of `Service` that performs it.
        role: the least that its user needs.
        summary: what it does, in a line.
        is_stream: it answers with server-sent events of type `answer`.
        takes_files: its request is a form whose fields come before its files.
    """

    name: str
    method: str
    path: str
    request: type[Q]
    answer: type[A]
    role: Role
    summary: str
    is_stream: bool = False
    takes_files: bool = False


def _operation(
    name: str, route: str, request: type[Q], answer: type[A], role: Role, summary: str, **kind: bool
) -> ServiceOperation[Q, A]:
    method, path = route.split()
    return ServiceOperation(name, method, PREFIX + path, request, answer, role, summary, **kind)


_VIEWER, _OPERATOR, _ADMIN = Role.VIEWER, Role.OPERATOR, Role.ADMIN

WHO = _operation("who", "GET /me", Nothing, model.User, _VIEWER, "the user of the token")
LIST_USERS = _operation("list_users", "GET /users", Nothing, list[model.User], _ADMIN, "all users")
ADD_USER = _operation(
    "add_user", "POST /users", model.User, model.Token, _ADMIN, "add a user, or give one a new role and token"
)
REMOVE_USER = _operation("remove_user", "DELETE /users/{name}", model.UserName, Nothing, _ADMIN, "remove a user")
LIST_DUTS = _operation("list_duts", "GET /duts", Nothing, list[model.Dut], _VIEWER, "all devices under test")
ADD_DUT = _operation("add_dut", "POST /duts", model.Dut, model.Dut, _ADMIN, "add or change a device under test")
LIST_STORED = _operation(
    "list_stored", "GET /stored", Nothing, model.Stored, _VIEWER, "traces, topologies, profiles, suites and rules"
)
ADD_TRACE = _operation(
    *("add_trace", "POST /traces", model.Upload, model.StoredFile, _OPERATOR),
    "store a trace of your own",
    takes_files=True,
)
ADD_RULES = _operation("add_rules", "POST /rules", model.Rules, model.StoredFile, _OPERATOR, "store rules of your own")
COMPOSE = _operation("compose", "POST /compose", model.Compose, model.Composed, _VIEWER, "run specs of stored files")
SUBMIT = _operation("submit", "POST /runs", model.Submit, list[model.Run], _OPERATOR, "put a run spec into a queue")
LIST_RUNS = _operation("list_runs", "GET /runs", model.RunQuery, list[model.Run], _VIEWER, "runs, newest first")
GET_QUEUE = _operation(
    "get_queue", "GET /duts/{dut}/queue", model.DutName, list[model.Run], _VIEWER, "what plays and waits, in order"
)
GET_RUN = _operation("get_run", "GET /runs/{run}", model.RunName, model.Run, _VIEWER, "one run")
CANCEL_RUN = _operation(
    "cancel_run", "POST /runs/{run}/cancel", model.RunName, model.Run, _OPERATOR, "stop a run, or take it off its queue"
)
FOLLOW_RUN = _operation(
    "follow_run",
    "GET /runs/{run}/events",
    model.RunName,
    model.Event,
    _VIEWER,
    "its log and states as server-sent events, from its start to its end",
    is_stream=True,
)
GET_REPORT = _operation(
    "get_report", "GET /runs/{run}/report", model.RunName, dict[str, Any], _VIEWER, "the facts of its report"
)
JUDGE = _operation(
    "judge", "POST /runs/{run}/judge", model.Judge, dict[str, Any], _VIEWER, "the verdict on a run by other rules"
)
COMPARE = _operation(
    "compare", "GET /compare", model.CompareQuery, dict[str, Any], _VIEWER, "groups of runs, class by class"
)
GET_TREND = _operation(
    "get_trend", "GET /trend", model.TrendQuery, list[model.TrendPoint], _VIEWER, "one spec on one device over time"
)
LIST_RESERVATIONS = _operation(
    "list_reservations", "GET /reservations", Nothing, list[model.Reservation], _VIEWER, "all that are not over"
)
RESERVE = _operation(
    "reserve", "POST /reservations", model.Reserve, model.Reservation, _OPERATOR, "keep a device for your own runs"
)
RELEASE = _operation(
    "release", "DELETE /reservations/{reservation}", model.ReservationName, Nothing, _OPERATOR, "end a reservation"
)

OPERATIONS: Mapping[str, ServiceOperation[Any, Any]] = {
    one.name: one for one in list(globals().values()) if isinstance(one, ServiceOperation)
}
"""All of them, by name."""


_REFERENCE = "#/components/schemas/{name}"


def openapi() -> dict[str, Any]:
    """The document."""
    kinds = [kind for one in OPERATIONS.values() for kind in (one.request, one.answer)]
    schemas, components = msgspec.json.schema_components(kinds, ref_template=_REFERENCE)
    shown = dict(zip(map(id, kinds), schemas, strict=True))
    paths: dict[str, Any] = {}
    for one in OPERATIONS.values():
        described = _describe(one, components[one.request.__name__], shown[id(one.answer)])
        paths.setdefault(one.path, {})[one.method.lower()] = described
    security = {"token": {"type": "http", "scheme": "bearer", "description": "charkha serve FOLDER --user NAME"}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "charkha serve", "version": VERSION},
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": security},
        "security": [{"token": []}],
    }


def _describe(one: ServiceOperation[Any, Any], request: Mapping[str, Any], answer: Mapping[str, Any]) -> dict[str, Any]:
    kind = "text/event-stream" if one.is_stream else "application/json"
    described: dict[str, Any] = {
        "operationId": one.name,
        "summary": one.summary,
        "description": f"Needs the role {one.role}.",
        "responses": {
            "200": {"description": "done", "content": {kind: {"schema": answer}}},
            "default": {
                "description": "refused: 401 no token, 403 not your role, 404 not there, 409 not now, 400 all else",
                "content": {"application/json": {"schema": _ERROR}},
            },
        },
    }
    in_path = set(in_path_of(one))
    if parameters := list(_parameters(one, request, in_path)):
        described["parameters"] = parameters
    if one.method == "POST" and in_path != set(request.get("properties", {})):
        asked: dict[str, Any] = {"$ref": _REFERENCE.format(name=one.request.__name__)}
        if one.takes_files:
            asked = {"allOf": [asked, {"type": "object", "properties": {"files": _FILES}, "required": ["files"]}]}
        kind = "multipart/form-data" if one.takes_files else "application/json"
        described["requestBody"] = {"required": True, "content": {kind: {"schema": asked}}}
    return described


_FILES = {"type": "array", "items": {"type": "string", "format": "binary"}}
_ERROR = {"type": "object", "properties": {"error": {"type": "string"}}, "required": ["error"]}


def in_path_of(one: ServiceOperation[Any, Any]) -> Iterable[str]:
    """Fields of the request that are in the path."""
    return re.findall(r"{(\w+)}", one.path)


def _parameters(
    one: ServiceOperation[Any, Any], request: Mapping[str, Any], in_path: set[str]
) -> Iterable[dict[str, Any]]:
    for name, schema in request.get("properties", {}).items():
        if name in in_path or one.method != "POST":
            required = name in in_path or name in request.get("required", ())
            yield {"name": name, "in": "path" if name in in_path else "query", "required": required, "schema": schema}
