"""Nodes as ASTRA-sim reads them: which attributes, in which of Chakra's value types.

Source: ASTRA-sim, astra-sim/workload/Workload.cc, and Chakra's feeder.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from emulator._pb import et_pb2
from emulator.trace.files.attributes import IN_SPLIT_NAMES, OUT_SPLIT_NAMES, attribute_value

Node: TypeAlias = et_pb2.Node

_READ = frozenset({"comm_type", "comm_size", "pg_name", "comm_src", "comm_dst", "comm_tag", "is_cpu_op"})
_INT32 = frozenset({"comm_src", "comm_dst", "comm_tag"})


def is_cpu_op(node: Node) -> bool:
    """Whether a node runs on the CPU: its attribute says so, or it only describes the trace."""
    is_marked = any(one.name == "is_cpu_op" and bool(attribute_value(one)) for one in node.attr)
    return is_marked or node.type == et_pb2.METADATA_NODE


def takes_time(node: Node) -> bool:
    """Whether a node's duration counts: a description of the trace has none."""
    return node.type not in (et_pb2.METADATA_NODE, et_pb2.INVALID_NODE)


def has_uneven_splits(node: Node) -> bool:
    """Whether a node gives the ranks of an all-to-all different parts."""
    values = (attribute_value(one) for one in node.attr if one.name in (*IN_SPLIT_NAMES, *OUT_SPLIT_NAMES))
    return any(isinstance(one, tuple) and len(set(one)) > 1 for one in values)


def make_compute(node: Node) -> str | None:
    """Turn a node into a COMP_NODE; returns the name of its type before, None if it was one."""
    if node.type == et_pb2.COMP_NODE:
        return None
    name = et_pb2.NodeType.Name(node.type)
    node.type = et_pb2.COMP_NODE
    return name


def replace_attributes(node: Node, values: Mapping[str, bool | int | str]) -> None:
    """Set attributes in the types that ASTRA-sim reads; drop earlier ones that it reads or that have these names."""
    kept = [one for one in node.attr if one.name not in _READ and one.name not in values]
    del node.attr[:]
    node.attr.extend(kept)
    for name, value in values.items():
        if isinstance(value, bool):
            node.attr.add(name=name, bool_val=value)
        elif isinstance(value, str):
            node.attr.add(name=name, string_val=value)
        elif name in _INT32:
            node.attr.add(name=name, int32_val=value)
        else:
            node.attr.add(name=name, int64_val=value)
