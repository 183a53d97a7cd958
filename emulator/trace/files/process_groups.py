"""Process groups as PyTorch writes them into a trace: JSON text, quoted by whoever passed it on."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping

from emulator.errors import TraceError

INIT_NAME = "process_group:init"
MAX_TEXT_BYTES = 16 << 20


class UnreadableGroups(ValueError):
    """Text that describes no process groups in any quoting known."""


def parse_process_groups(text: str) -> dict[str, tuple[int, ...]]:
    """Name → world ranks, () = all, from a node's `inputs.values`.

    The text is a JSON list of objects with `pg_name` and `ranks`, or a list that holds that text as a string, in
    JSON's or Python's quoting.

    Raises:
        UnreadableGroups: it is neither.
    """
    entries = _literal(text)
    while isinstance(entries, list) and len(entries) == 1 and isinstance(entries[0], str):
        entries = _literal(entries[0])
    if not isinstance(entries, list):
        raise UnreadableGroups(text[:80])
    return dict(_group(entry) for entry in entries)


def parse_rank_list(text: str) -> tuple[int, ...]:
    """Ranks from a text like `[0, 1]`.

    Raises:
        UnreadableGroups: it is not a list of integers; Kineto, for one, shortens long ones with an ellipsis.
    """
    return _ranks(_literal(text))


def merge_groups(
    known: dict[str, tuple[int, ...]], new: Mapping[str, tuple[int, ...]], *, path: str, node: int
) -> None:
    """Add groups that a second description defines to those known.

    Raises:
        TraceError: both define a group, and differently.
    """
    for name, ranks in new.items():
        if known.setdefault(name, ranks) != ranks:
            raise TraceError(f"defines process group {name!r} a second time with other ranks", path=path, node=node)


def _group(entry: object) -> tuple[str, tuple[int, ...]]:
    if not isinstance(entry, dict) or not isinstance(entry.get("pg_name"), (str, int)):
        raise UnreadableGroups(str(entry)[:80])
    return str(entry["pg_name"]), _ranks(entry.get("ranks", []))


def _ranks(value: object) -> tuple[int, ...]:
    if not isinstance(value, list) or not all(type(rank) is int for rank in value):
        raise UnreadableGroups(str(value)[:80])
    return tuple(value)


def _literal(text: str) -> object:
    if len(text) > MAX_TEXT_BYTES:
        raise UnreadableGroups(f"{len(text)} characters")
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError) as error:
        raise UnreadableGroups(text[:80]) from error
