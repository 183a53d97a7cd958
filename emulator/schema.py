"""Documents from outside (YAML, JSON) as typed values: the type is the schema, and JSON Schema is exported from it."""

from __future__ import annotations

import json
import math
import re
from typing import Any, NoReturn, TypeVar

import msgspec

from emulator.suggestions import REMOVED_KEYS, did_you_mean

T = TypeVar("T")
NO_UNIT = "has no unit; if it is a name, put it in quotes"
"""What is wrong with a bare number where text belongs."""

LEAST_INTEGER, LARGEST_INTEGER = -(1 << 63), (1 << 64) - 1
"""Of a document: what 64 bits hold, with or without a sign."""
_TYPES = {"integer": "int", "number": "float", "string": "str"}
"""Types of JSON Schema, as the other messages name them."""
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]|\[\.\.\.\]")
_UNKNOWN = re.compile(r"Object contains unknown field `(.+)`")
_MISSING = re.compile(r"Object missing required field `(.+)`")
_BARE_NUMBER = re.compile(r"Expected `str(?: \| null)?`, got `(?:int|float)`")
_YAML_WORDS = {"object": "a mapping", "array": "a list", "str": "text"}
_JSON_WORD = re.compile(r"\b(?:object|array|str)\b")
_NOT_LISTED = re.compile(r"Invalid (?:enum )?value (.+)")


class SchemaProblem(ValueError):
    """A document that does not fit its type. The caller knows the file, and turns this into an InputError.

    Attributes:
        path: keys and indices that lead to the value, from the top of the document.
        problem: what is wrong, as part of a sentence.
    """

    def __init__(self, path: tuple[str | int, ...], problem: str) -> None:
        super().__init__(f"{format_path(path)}: {problem}" if path else problem)
        self.path, self.problem = path, problem


class Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A mapping in a document. A key that it does not have is refused, which finds misspelt ones."""


def require_one_of(section: Section, *names: str) -> None:
    """Check that a section has exactly one of several keys; for `__post_init__`.

    Raises:
        ValueError: it has none of them, or more than one.
    """
    if sum(getattr(section, name) is not None for name in names) != 1:
        raise ValueError(f"needs exactly one of {', '.join(names[:-1])} and {names[-1]}")


def checked_scalar(value: Any, *, has_paths: bool = True) -> Any:
    """A number or text from outside, if it can be used everywhere.

    Args:
        value: it, or any other.
        has_paths: texts may have the escapes of bytes that are not text (PEP 383), as paths can.

    Raises:
        ValueError: infinite, not a number, more than 64 bits, or text with half of a surrogate pair.
    """
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value} is not a finite number")
    if isinstance(value, int) and not LEAST_INTEGER <= value <= LARGEST_INTEGER:
        raise ValueError("a number has more than 64 bits")
    if isinstance(value, str) and not value.isascii():
        try:
            value.encode("utf-8", "surrogateescape" if has_paths else "strict")
        except UnicodeEncodeError as error:
            raise ValueError("a text has half of a surrogate pair, which is no character") from error
    return value


def parse_json(content: bytes, *, has_paths: bool = True) -> Any:
    """JSON as plain values.

    Args:
        content: UTF-8.
        has_paths: see `checked_scalar`.

    Raises:
        SchemaProblem: not UTF-8, not JSON, nested too deeply, of more than MOST_JSON_VALUES, or with a value that
            `checked_scalar` refuses; with the line.
    """
    if sum(map(content.count, (b",", b"[", b"{"))) > MOST_JSON_VALUES:  # few bytes take much memory
        raise SchemaProblem((), f"has more than {MOST_JSON_VALUES:,} values")
    try:
        found = JSON.decode(content.decode("utf-8"))
        if b"\\u" in content:  # only an escape can be half of a pair
            _check_texts(found, has_paths)
        return found
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise SchemaProblem((), f"is not UTF-8 text (line {line})") from error
    except ValueError as error:
        raise SchemaProblem((), f"is not JSON ({error})") from error
    except RecursionError as error:
        raise SchemaProblem((), "is nested too deeply") from error


def _integer(text: str) -> int:
    return int(checked_scalar(int(text) if len(text) <= _LONGEST_INTEGER else LARGEST_INTEGER + 1))


def _refuse(text: str) -> NoReturn:
    raise ValueError(f"{text[:20]} is not a finite number")


def _number(text: str) -> float:
    return value if math.isfinite(value := float(text)) else _refuse(text)


MOST_JSON_VALUES = 4_000_000
"""Of a document, counted by what is before each."""
_LONGEST_INTEGER = 21
"""Characters of one of 64 bits, with its sign."""
JSON = json.JSONDecoder(parse_int=_integer, parse_float=_number, parse_constant=_refuse)
"""Decodes text; refuses numbers that `checked_scalar` refuses, with a ValueError."""


def _check_texts(value: Any, has_paths: bool) -> None:
    if isinstance(value, dict):
        _check_texts([*value, *value.values()], has_paths)
    elif isinstance(value, list):
        for one in value:
            _check_texts(one, has_paths)
    else:
        checked_scalar(value, has_paths=has_paths)


def decode(document: Any, kind: type[T], *, is_text: bool = False) -> T:
    """A document of plain values (dict, list, str, int, float, bool, None) as a value of its type.

    Args:
        document: as a YAML or JSON parser returns it.
        kind: usually a `msgspec.Struct`; one with `forbid_unknown_fields` refuses misspelt keys.
        is_text: numbers and truth values may be texts, as in a form.

    Raises:
        SchemaProblem: the first value that does not fit.
    """
    try:
        return msgspec.convert(document, kind, strict=not is_text)
    except msgspec.ValidationError as error:
        problem, _, where = str(error).partition(" - at `$")
        steps = _STEP.findall(where.removesuffix("`"))  # both parts are empty where msgspec hides a mapping's key
        path = tuple(int(number) if number else name for name, number in steps if name or number)
        raise SchemaProblem(path, _in_words(problem, kind, path)) from None
    except UnicodeError as error:
        raise SchemaProblem((), "has text with bytes that are not UTF-8") from error
    except RecursionError as error:
        raise SchemaProblem((), "is nested too deeply") from error
    except (ArithmeticError, LookupError, AttributeError) as error:  # of a type's own checks
        raise SchemaProblem((), f"has a value that cannot be used ({error})") from error


def json_schema(kind: Any) -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of a type, for editors and for programs that write such documents."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **msgspec.json.schema(kind)}


def format_path(path: tuple[str | int, ...]) -> str:
    """A path in the usual notation: `hosts[3].ports[0].rate`."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return text.removeprefix(".")


def _in_words(problem: str, kind: Any, path: tuple[str | int, ...]) -> str:
    if unknown := _UNKNOWN.fullmatch(problem):
        if unknown[1] in (known := _field_names(kind)):
            return f"unknown key {unknown[1]!r} in this place: it belongs elsewhere"
        if unknown[1] in REMOVED_KEYS:
            return f"unknown key {unknown[1]!r}: {REMOVED_KEYS[unknown[1]]}"
        return f"unknown key {unknown[1]!r}{did_you_mean(unknown[1], known)}"
    if missing := _MISSING.fullmatch(problem):
        return f"the key {missing[1]!r} is missing"
    if refused := _NOT_LISTED.fullmatch(problem):
        return f"{refused[1]} is not one of {', '.join(_choices(kind, path))}"
    if _BARE_NUMBER.fullmatch(problem):
        return NO_UNIT
    words = problem[:1].lower() + problem[1:].replace("`", "").replace(" | null", "")
    return _JSON_WORD.sub(lambda found: _YAML_WORDS[found[0]], words)


def _choices(kind: Any, path: tuple[str | int, ...]) -> list[str]:
    """The values, and the types of values, that are accepted at a path."""
    definitions = (schema := msgspec.json.schema(kind)).get("$defs", {})

    def alternatives(node: dict[str, Any]) -> list[dict[str, Any]]:
        if "$ref" in node:
            return alternatives(definitions[node["$ref"].rpartition("/")[2]])
        return [found for one in node["anyOf"] for found in alternatives(one)] if "anyOf" in node else [node]

    nodes = alternatives(schema)
    for step in path:
        steps = [node.get("items") if isinstance(step, int) else node.get("properties", {}).get(step) for node in nodes]
        nodes = [one for node in steps if node for one in alternatives(node) if one.get("type") != "null"]
    return [str(value) for node in nodes for value in node.get("enum") or [_TYPES.get(node["type"], node["type"])]]


def _field_names(kind: Any) -> list[str]:
    """Every key that the type or a type inside it has."""
    definitions = msgspec.json.schema(kind).get("$defs", {}).values()
    return sorted({name for one in definitions for name in one.get("properties", {})})
