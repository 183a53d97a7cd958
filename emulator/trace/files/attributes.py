"""Chakra's attributes: any of 30 value types in, plain Python values out, and the three types we write."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from emulator._pb import et_pb2

AttrValue: TypeAlias = int | float | str | Sequence[int]
"""What Charkha writes: an int as uint64 (int64 when negative), a float as double, a list as uint64s, text as string."""


def make_attribute(name: str, value: AttrValue) -> et_pb2.Attribute:
    """An attribute in the types that Charkha writes.

    Raises:
        ValueError: a number outside 64 bits, or a negative one in a list.
    """
    if isinstance(value, str):
        return et_pb2.Attribute(name=name, string_val=value)
    if isinstance(value, float):
        return et_pb2.Attribute(name=name, double_val=value)
    if not isinstance(value, int):
        return et_pb2.Attribute(name=name, uint64_list=et_pb2.Uint64List(values=value))
    if value < 0:
        return et_pb2.Attribute(name=name, int64_val=value)
    return et_pb2.Attribute(name=name, uint64_val=value)


def attribute_value(attribute: et_pb2.Attribute) -> object:
    """The value whatever its type: lists as tuples, None if there is none."""
    kind = attribute.WhichOneof("value")
    if kind is None:
        return None
    value = getattr(attribute, kind)
    return tuple(value.values) if kind.endswith("_list") else value
