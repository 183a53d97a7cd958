"""A YAML file as plain values, with the line of every key for error messages."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from emulator.errors import TopologyError
from emulator.schema import format_path

KeyPath: TypeAlias = Sequence[str | int]
MAX_YAML_BYTES = 16 << 20
"""100,000 hosts of a line each have half of that."""


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed YAML file.

    Attributes:
        path: the file.
        value: its content as plain objects; all keys are strings.
        root: its content as YAML nodes, which know their lines.
        is_converted: `value` was converted from another format, so its keys do not occur in the file.
        digest: SHA-256 of the file, in hex.
    """

    path: Path
    value: Any
    root: yaml.Node
    is_converted: bool = False
    digest: str = ""

    def error(self, problem: str, key: KeyPath = ()) -> TopologyError:
        """An error that names file, line and key."""
        if self.is_converted:
            where = f" (at {format_path(tuple(key))} after conversion)" if key else ""
            return TopologyError(problem + where, path=self.path)
        return TopologyError(problem, path=self.path, key=format_path(tuple(key)) or None, line=self._line(key))

    def parse(self, parser: Callable[[str], int], text: str | int | None, key: KeyPath) -> int | None:
        """A quantity with its unit as a number, or a bare one that YAML took for a number; None if it is left out.

        Raises:
            TopologyError: the parser refuses the text.
        """
        if text is None:
            return None
        try:
            return parser(str(text))
        except ValueError as error:
            raise self.error(str(error), key) from error

    def require(self, name: str, known: Collection[str], what: str, key: KeyPath) -> None:
        """Check that a name exists.

        Raises:
            TopologyError: it is not one of those known; the message lists up to twelve that are.
        """
        if name not in known:
            listed = ", ".join(sorted(known)[:12])
            raise self.error(f"there is no {what} {name!r}; there are {listed}", key)

    def require_values(self) -> None:
        """Check that every key and every list entry has a value.

        Raises:
            TopologyError: one is empty.
        """
        empty = _first_empty(self.value)
        if empty is not None:
            raise self.error("has no value: give one, or delete the key", empty)

    def _line(self, key: KeyPath) -> int:
        node = self.root
        for part in key:
            found = _child(node, part)
            if found is None:
                break
            node = found
        return int(node.start_mark.line) + 1


def read_document(path: Path) -> Document:
    """Read a YAML file.

    Raises:
        TopologyError: it cannot be read, is too large, is not YAML, or has a key twice.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MAX_YAML_BYTES + 1)
        if len(content) > MAX_YAML_BYTES:
            raise TopologyError(
                f"has more than {MAX_YAML_BYTES >> 20} MiB, the limit of a YAML file: describe regular parts with "
                "`fabric`, `per_rank` or a sweep",
                path=path,
            )
    except OSError as error:
        raise TopologyError(f"cannot be read ({error.strerror})", path=path) from error
    return parse_document(content, path)


def parse_document(content: bytes, path: Path) -> Document:
    """Read YAML that came from elsewhere than a file; `path` stands for its place in errors.

    Raises:
        TopologyError: it is not YAML, or has a key twice.
    """
    try:
        text = content.decode("utf-8")
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        value = yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else None
        raise TopologyError(f"is not valid YAML ({error.problem})", path=path, line=line) from error
    except (yaml.YAMLError, ValueError, TypeError) as error:
        raise TopologyError(f"is not valid YAML ({str(error).splitlines()[0]})", path=path) from error
    except RecursionError as error:
        raise TopologyError("is nested too deeply", path=path) from error
    if root is None:
        raise TopologyError("is empty", path=path)
    _refuse_ambiguity(root, path)
    return Document(path, _with_text_keys(value), root, digest=hashlib.sha256(content).hexdigest())


def _first_empty(value: Any, key: KeyPath = ()) -> KeyPath | None:
    """Path of the first key or list entry without a value."""
    if value is None:
        return key
    items: Iterable[tuple[str | int, Any]] = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    return next((found for name, item in items if (found := _first_empty(item, (*key, name))) is not None), None)


def _with_text_keys(value: Any) -> Any:
    """The value with all mapping keys as text: YAML reads the rank in `0: h0` as a number."""
    if isinstance(value, dict):
        return {str(key): _with_text_keys(item) for key, item in value.items()}
    return [_with_text_keys(item) for item in value] if isinstance(value, list) else value


def _child(node: yaml.Node, part: str | int) -> yaml.Node | None:
    if isinstance(node, yaml.MappingNode):
        return next((value for key, value in node.value if key.value == part), None)
    if isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
        found: yaml.Node = node.value[part]
        return found
    return None


def _refuse_ambiguity(root: yaml.Node, path: Path) -> None:
    """Refuse duplicate keys, of which YAML silently keeps the last, and aliases, which can form cycles."""
    visited: set[int] = set()
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if id(node) in visited:
            raise TopologyError(
                "uses an alias here or below: write out the value", path=path, line=node.start_mark.line + 1
            )
        visited.add(id(node))
        if isinstance(node, yaml.MappingNode):
            _refuse_duplicates(node, path)
            waiting += [value for _, value in node.value]
        elif isinstance(node, yaml.SequenceNode):
            waiting += node.value


def _refuse_duplicates(mapping: yaml.MappingNode, path: Path) -> None:
    seen: set[str] = set()
    for key, _ in mapping.value:
        if key.value in seen:
            raise TopologyError("appears twice", path=path, key=str(key.value), line=key.start_mark.line + 1)
        if isinstance(key.value, str):
            seen.add(key.value)
