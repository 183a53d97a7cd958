"""A YAML file as plain values, with the line of every key for error messages."""

from __future__ import annotations

import errno
import hashlib
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from emulator.errors import TopologyError
from emulator.host.files import read_bounded
from emulator.schema import checked_scalar, format_path

KeyPath: TypeAlias = Sequence[str | int]
MAX_YAML_BYTES = 16 << 20
"""100,000 hosts of a line each have half of that."""
MOST_VALUES = 1_000_000
"""Values, keys, lists and mappings of a file."""


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


def read_document(path: Path, *, most_bytes: int = MAX_YAML_BYTES) -> Document:
    """Read a YAML file.

    Raises:
        TopologyError: it cannot be read, is too large, is not YAML, or has a key twice.
    """
    try:
        content = read_bounded(path, most_bytes)
    except OSError as error:
        advice = ": describe regular parts with `fabric`, `per_rank` or a sweep" if error.errno == errno.EFBIG else ""
        raise TopologyError(f"cannot be read ({error.strerror}){advice}", path=path) from error
    return parse_document(content, path)


def parse_document(content: bytes, path: Path, *, most_values: int = MOST_VALUES) -> Document:
    """Read YAML that came from elsewhere than a file; `path` stands for its place in errors.

    Raises:
        TopologyError: it is not YAML, has a key twice, or has more than `most_values` values and keys.
    """
    loader = None
    try:
        loader = _Loader(content.decode("utf-8"))
        loader.values_left = most_values
        root = loader.get_single_node()
        if root is None:
            raise TopologyError("is empty", path=path)
        value = _Values(loader, path).of(root)
    except TopologyError:
        raise
    except _TooMany:
        raise TopologyError(f"has more than {most_values:,} values and keys", path=path) from None
    except yaml.MarkedYAMLError as error:
        line = min(error.problem_mark.line, content.rstrip().count(b"\n")) + 1 if error.problem_mark else None
        if "nesting depth" in str(error.problem):
            raise TopologyError("is nested too deeply", path=path, line=line) from error
        raise TopologyError(f"is not valid YAML ({error.problem})", path=path, line=line) from error
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise TopologyError("is not valid YAML (not UTF-8 text)", path=path, line=line) from error
    except RecursionError as error:
        raise TopologyError("is nested too deeply", path=path) from error
    except Exception as error:  # the only place where YAML is read: whatever the library makes of it, it is the file
        raise TopologyError(f"is not valid YAML ({str(error).splitlines()[0]})", path=path) from error
    finally:
        if loader is not None:
            loader.dispose()
    return Document(path, value, root, digest=hashlib.sha256(content).hexdigest())


class _TooMany(Exception):
    """More values and keys than a document may have."""


_Parser: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The library's own in C is ten times as fast; where it was built without, the same in Python."""


class _Loader(_Parser):  # type: ignore[valid-type,misc]
    """Reads dates and sexagesimal numbers as the texts that they are."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 (as the library declares it)
    values_left = MOST_VALUES

    def descend_resolver(self, current_node: yaml.Node | None, current_index: Any) -> None:
        """Count: a loader comes here before it makes a value."""
        self.values_left -= 1
        if self.values_left < 0:
            raise _TooMany


_SCALARS = {f"tag:yaml.org,2002:{name}" for name in ("null", "bool", "int", "float", "str")}
for _first, _known in yaml.SafeLoader.yaml_implicit_resolvers.items():
    _Loader.yaml_implicit_resolvers[_first] = [
        (tag, re.compile(f"(?![^:]*:)(?:{pattern.pattern})", pattern.flags))
        for tag, pattern in _known
        if tag in _SCALARS
    ]


_LONGEST_INTEGER = 100
"""Characters: one of 64 bits has 66 in the longest way to write it, and may have spaces of `_`."""


class _Values:
    """Plain values of YAML nodes. Refuses what YAML would read in two ways, and what no document needs."""

    def __init__(self, loader: _Loader, path: Path) -> None:
        self._loader, self._path = loader, path
        self._visited: set[int] = set()

    def of(self, node: yaml.Node) -> Any:
        if id(node) in self._visited:  # it can form a cycle
            raise self._error("uses an alias here or below: write out the value", node)
        self._visited.add(id(node))
        if isinstance(node, yaml.MappingNode) and node.tag == "tag:yaml.org,2002:map":
            return self._mapping(node)
        if isinstance(node, yaml.SequenceNode) and node.tag == "tag:yaml.org,2002:seq":
            return [self.of(one) for one in node.value]
        if not isinstance(node, yaml.ScalarNode) or node.tag not in _SCALARS:
            raise self._error(f"is not valid YAML (no value here has the tag {node.tag})", node)
        if node.tag.endswith(":int") and len(node.value) > _LONGEST_INTEGER:  # Python refuses it in words of its own
            raise self._error("cannot be used: a number has more than 64 bits", node)
        try:
            value = self._loader.construct_object(node)
        except Exception as error:  # of a tag that is written out: `!!int x`
            raise self._error(f"is not valid YAML ({str(error).splitlines()[0]})", node) from error
        return self._checked(value, node)

    def _mapping(self, node: yaml.MappingNode) -> dict[str, Any]:
        """All keys as text: YAML reads the rank in `0: h0` as a number."""
        found: dict[str, Any] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise self._error("is not valid YAML (a key is plain text, not a mapping or a list)", key)
            if key.value in found:
                raise self._error("appears twice", key, key=key.value)
            found[self._checked(key.value, key)] = self.of(value)
        return found

    def _checked(self, value: Any, node: yaml.Node) -> Any:
        try:
            return checked_scalar(value)
        except ValueError as error:
            raise self._error(f"cannot be used: {error}", node) from error

    def _error(self, problem: str, node: yaml.Node, *, key: str | None = None) -> TopologyError:
        return TopologyError(problem, path=self._path, key=key, line=node.start_mark.line + 1)


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


def _child(node: yaml.Node, part: str | int) -> yaml.Node | None:
    if isinstance(node, yaml.MappingNode):
        return next((value for key, value in node.value if key.value == part), None)
    if isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
        found: yaml.Node = node.value[part]
        return found
    return None
