"""The operations of the service, each defined once: HTTP routes, OpenAPI and the client come from here.

Fields of a request are taken from the path, then from the query (GET, DELETE) or from a JSON body (POST).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from emulator.annexes.service import model
from emulator.annexes.service.model import Nothing, Role

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
    """

    name: str
    method: str
    path: str
    request: type[Q]
    answer: type[A]
    role: Role
    summary: str
    is_stream: bool = False


def _operation(
    name: str, route: str, request: type[Q], answer: type[A], role: Role, summary: str, *, is_stream: bool = False
) -> ServiceOperation[Q, A]:
    method, path = route.split()
    return ServiceOperation(name, method, PREFIX + path, request, answer, role, summary, is_stream)


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
    "list_stored", "GET /stored", Nothing, model.Stored, _VIEWER, "traces, topologies, profiles and suites"
)
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
