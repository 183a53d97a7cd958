"""A node of the `workload_graph` JSON as a Chakra node; keys are spelt in many ways (`ctrlDeps`, `ctrl_deps`)."""

from __future__ import annotations

import json

from google.protobuf.json_format import ParseDict, ParseError

from emulator._pb import et_pb2

# Spellings without case and underscores → the field of Node.
FIELDS = {
    "id": "id",
    "name": "name",
    "nodetype": "type",
    "type": "type",
    "ctrldeps": "ctrl_deps",
    "datadeps": "data_deps",
    "runtime": "duration_micros",
    "duration": "duration_micros",
    "durationmicros": "duration_micros",
    "starttime": "start_time_micros",
    "starttimemicros": "start_time_micros",
    "storage": "storage",
}
# … → the attribute whose value is an integer.
INTEGERS = {
    "commtype": "comm_type",
    "commsize": "comm_size",
    "commsrc": "comm_src",
    "commdst": "comm_dst",
    "commtag": "comm_tag",
    "commpriority": "comm_priority",
    "tensorsize": "tensor_size",
    "numops": "num_ops",
    "rootrank": "root_rank",
}
MAX_UINT64 = (1 << 64) - 1
INT64_RANGE = range(-(1 << 63), 1 << 63)


class BadGraphNode(ValueError):
    """An entry of workload_graph that is not a node; the message says what is wrong."""


def graph_node(entry: object) -> et_pb2.Node:
    """The node an entry describes; keys without a field become attributes of their own name.

    Raises:
        BadGraphNode: no object, no id, or a value that its field cannot have.
    """
    if not isinstance(entry, dict):
        raise BadGraphNode("is not an object")
    node = et_pb2.Node()
    seen = set()
    for key, value in entry.items():
        plain = key.lower().replace("_", "")
        if plain in FIELDS:
            seen.add(FIELDS[plain])
            _set_field(node, FIELDS[plain], key, value)
        elif value is not None:
            node.attr.append(_attribute(key, plain, value))
    if "id" not in seen:
        raise BadGraphNode("has no id")
    return node


def _set_field(node: et_pb2.Node, field: str, key: str, value: object) -> None:
    if field == "name":
        if not isinstance(value, str):
            raise BadGraphNode(f"{key} is not a string")
        node.name = _text(value)
    elif field == "type":
        node.type = _enum_number(key, value, et_pb2.NodeType, "_NODE")  # type: ignore[assignment]
    elif field == "storage":
        _set_storage(node, key, value)
    elif field in ("ctrl_deps", "data_deps"):
        if not isinstance(value, list):
            raise BadGraphNode(f"{key} is not a list")
        (node.ctrl_deps if field == "ctrl_deps" else node.data_deps).extend(_unsigned(key, item) for item in value)
    else:
        setattr(node, field, _unsigned(key, value))


def _set_storage(node: et_pb2.Node, key: str, value: object) -> None:
    if not isinstance(value, dict):
        raise BadGraphNode(f"{key} is not an object")
    try:
        ParseDict(value, node.storage)
    except (ParseError, ValueError, TypeError, AttributeError, RecursionError) as error:
        problem = " ".join(str(error).split()).replace("charkha.et.", "")
        raise BadGraphNode(f"{key} is no StorageInfo: {problem[:200]}") from error


def _attribute(key: str, plain: str, value: object) -> et_pb2.Attribute:
    if plain == "commtype":
        return et_pb2.Attribute(name="comm_type", int64_val=_enum_number(key, value, et_pb2.CollectiveCommType, ""))
    if plain in INTEGERS:
        return et_pb2.Attribute(name=INTEGERS[plain], int64_val=_signed(key, value))
    if plain == "iscpuop":
        return et_pb2.Attribute(name="is_cpu_op", bool_val=bool(_signed(key, value)))
    if plain == "pgname":
        return et_pb2.Attribute(name="pg_name", string_val=_text(str(value)))
    return _free_attribute(_text(key), value)


def _free_attribute(name: str, value: object) -> et_pb2.Attribute:
    """An attribute of the type that the value has; what no type can hold is kept as its JSON text."""
    if isinstance(value, bool):
        return et_pb2.Attribute(name=name, bool_val=value)
    if isinstance(value, int) and value in INT64_RANGE:
        return et_pb2.Attribute(name=name, int64_val=value)
    if isinstance(value, float):
        return et_pb2.Attribute(name=name, double_val=value)
    if isinstance(value, str):
        return et_pb2.Attribute(name=name, string_val=_text(value))
    if isinstance(value, list) and all(type(item) is int and item in INT64_RANGE for item in value):
        return et_pb2.Attribute(name=name, int64_list=et_pb2.Int64List(values=value))
    return et_pb2.Attribute(name=name, string_val=json.dumps(value))


def _text(value: str) -> str:
    """Text that UTF-8 can hold: JSON can name half of a surrogate pair, protobuf cannot hold one."""
    return value.encode("utf-8", "replace").decode("utf-8")


def _integer(key: str, value: object) -> int:
    if isinstance(value, str) and value.strip().lstrip("-").isdecimal() and len(value) < 32:
        return int(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if not isinstance(value, int):
        raise BadGraphNode(f"{key} is not an integer: {str(value)[:40]!r}")
    return value


def _unsigned(key: str, value: object) -> int:
    number = _integer(key, value)
    if not 0 <= number <= MAX_UINT64:
        raise BadGraphNode(f"{key} is outside 0 … 2**64 - 1: {number}")
    return number


def _signed(key: str, value: object) -> int:
    number = _integer(key, value)
    if number not in INT64_RANGE:
        raise BadGraphNode(f"{key} needs more than 64 bits: {number}")
    return number


def _enum_number(key: str, value: object, enum: object, suffix: str) -> int:
    if isinstance(value, str) and not value.lstrip("-").isdecimal():
        name = value.upper().removesuffix(suffix) + suffix
        numbers: dict[str, int] = dict(enum.items())  # type: ignore[attr-defined]
        if name not in numbers:
            raise BadGraphNode(f"{key} is unknown: {value[:40]!r}")
        return numbers[name]
    number = _signed(key, value)
    if not -(1 << 31) <= number < 1 << 31:
        raise BadGraphNode(f"{key} is unknown: {number}")
    return number
