"""Documents from outside (YAML, JSON) as typed values: the type is the schema, and JSON Schema is exported from it."""

from __future__ import annotations

import difflib
import re
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]|\[\.\.\.\]")
_UNKNOWN = re.compile(r"Object contains unknown field `(.+)`")


class SchemaProblem(ValueError):
    """A document that does not fit its type. The caller knows the file, and turns this into an InputError.

    Attributes:
        path: keys and indices that lead to the value, from the top of the document.
        problem: what is wrong there, as part of a sentence.
    """

    def __init__(self, path: tuple[str | int, ...], problem: str) -> None:
        super().__init__(f"{format_path(path)}: {problem}" if path else problem)
        self.path, self.problem = path, problem


def decode(document: Any, kind: type[T]) -> T:
    """A document of plain values (dict, list, str, int, float, bool, None) as a value of its type.

    Args:
        document: as a YAML or JSON parser returns it.
        kind: usually a `msgspec.Struct`; one with `forbid_unknown_fields` refuses misspelt keys.

    Raises:
        SchemaProblem: the first value that does not fit.
    """
    try:
        return msgspec.convert(document, kind)
    except msgspec.ValidationError as error:
        problem, _, where = str(error).partition(" - at `$")
        path = tuple(int(number) if number else name for name, number in _STEP.findall(where.removesuffix("`")))
        raise SchemaProblem(path, _in_words(problem, kind)) from None


def json_schema(kind: Any) -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of a type, for editors and for programs that write such documents."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **msgspec.json.schema(kind)}


def format_path(path: tuple[str | int, ...]) -> str:
    """A path as people write it: `hosts[3].ports[0].rate`."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return text.removeprefix(".")


def _in_words(problem: str, kind: Any) -> str:
    unknown = _UNKNOWN.fullmatch(problem)
    if unknown is None:
        return problem[:1].lower() + problem[1:].replace("`", "").replace(" | null", "")
    name = unknown.group(1)
    near = difflib.get_close_matches(name, _field_names(kind), n=1)
    return f"unknown key {name!r}" + (f"; did you mean {near[0]!r}?" if near else "")


def _field_names(kind: Any) -> list[str]:
    """Every key that the type or a type inside it has."""
    definitions = msgspec.json.schema(kind).get("$defs", {}).values()
    return sorted({name for one in definitions for name in one.get("properties", {})})
