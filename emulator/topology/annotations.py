"""The annotations of an InfraGraph, as types, and the names of the nodes that they are for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from msgspec import Struct

from emulator.schema import SchemaProblem, decode
from emulator.topology.document import Document

KEY = "annotations"
Selected: TypeAlias = tuple[str, str | None]
"""A name and what is in brackets behind it, which selects some of its copies; None: all."""
_PART = re.compile(r"([\w-]+)(?:\[([-\d:]*)\]|\.(\d+)(?![\w-]))?\.?")
"""Of the name of a node: `xpu`, `xpu[0:2]` or `xpu.0`."""
_OF_THE_GRAPH = {"type", "instance", "instance_idx", "device", "composed_device", "link", "bandwidth", "latency"}
"""Attributes that InfraGraph itself gives to nodes and edges: the infrastructure says the same."""


class Attribute(Struct, frozen=True, kw_only=True):
    """What is said of a node."""

    attribute: str
    value: str | int | float | bool = ""


class AnnotatedNode(Struct, frozen=True, kw_only=True):
    """A node, or several, with attributes."""

    name: str
    attributes: tuple[Attribute, ...] = ()

    def path(self) -> list[Selected]:
        """The instance and components inside it that `host.0.xpu.1`, `host[0:2]xpu[1]` or `host.0` select.

        Raises:
            ValueError: the name is none of these.
        """
        parts = list(_PART.finditer(self.name))
        if not parts or "".join(part[0] for part in parts) != self.name:
            raise ValueError(f"{self.name!r} is not a node: write host.0.xpu.1 or host[0:2]xpu[1]")
        return [(part[1], part[3] if part[2] is None else part[2]) for part in parts]


class _Other(Struct, frozen=True, kw_only=True):
    """An edge or a link."""

    attributes: tuple[Attribute, ...] = ()


class Annotations(Struct, frozen=True, kw_only=True):
    """All annotations of a graph."""

    nodes: tuple[AnnotatedNode, ...] | None = None
    edges: tuple[_Other, ...] | None = None
    links: tuple[_Other, ...] | None = None
    graph: tuple[Attribute, ...] | None = None

    def ignored(self, *used: str) -> list[str]:
        """Names of the attributes that are not used and that the infrastructure does not imply, in order."""
        return list(dict.fromkeys(one for one in self._names(used) if one not in _OF_THE_GRAPH))

    def _names(self, used: tuple[str, ...]) -> Iterator[str]:
        for node in self.nodes or ():
            yield from (one.attribute for one in node.attributes if one.attribute not in used)
        for other in (*(self.edges or ()), *(self.links or ())):
            yield from (one.attribute for one in other.attributes)
        yield from (one.attribute for one in self.graph or ())


def read_annotations(document: Document, value: Mapping[str, Any]) -> Annotations:
    """The annotations of a document; none if it has none.

    Raises:
        TopologyError: they have another shape; the error names the line and the key.
    """
    try:
        return decode(value.get(KEY) or {}, Annotations)
    except SchemaProblem as problem:
        raise document.error(problem.problem, (KEY, *problem.path)) from problem
