"""The description of the HTTP interface has every operation, and refers to nothing that is missing."""

import json
import re

from emulator.annexes.service.client import Client
from emulator.annexes.service.operations import OPERATIONS, openapi
from emulator.annexes.service.service import Service


def test_every_operation_is_described() -> None:
    found = openapi()
    described = {
        (one["operationId"], method.upper(), path)
        for path, item in found["paths"].items()
        for method, one in item.items()
    }
    assert described == {(one.name, one.method, one.path) for one in OPERATIONS.values()}


def test_every_reference_leads_somewhere() -> None:
    found = openapi()
    references = set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(found)))
    assert references
    assert references <= found["components"]["schemas"].keys()


def test_fields_are_where_they_are_sent() -> None:
    paths = openapi()["paths"]
    (run,) = paths["/api/v1/runs/{run}"]["get"]["parameters"]
    assert (run["name"], run["in"], run["required"]) == ("run", "path", True)
    assert "requestBody" in paths["/api/v1/runs"]["post"]
    assert "requestBody" not in paths["/api/v1/runs/{run}/cancel"]["post"]
    queried = {one["name"]: one["required"] for one in paths["/api/v1/compare"]["get"]["parameters"]}
    assert queried == {"baseline": True, "other": True, "force": False}


def test_service_and_client_have_a_method_per_operation() -> None:
    assert [name for name in OPERATIONS if not (hasattr(Service, name) and hasattr(Client, name))] == []
