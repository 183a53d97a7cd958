"""The HTTP interface as an OpenAPI 3.1 document, made from the operations."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from emulator.annexes.service.operations import OPERATIONS, ServiceOperation
from emulator.version import VERSION

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
        reference = {"$ref": _REFERENCE.format(name=one.request.__name__)}
        described["requestBody"] = {"required": True, "content": {"application/json": {"schema": reference}}}
    return described


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
