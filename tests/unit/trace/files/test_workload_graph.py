from __future__ import annotations

import pytest

from emulator._pb import et_pb2
from emulator.trace.files.attributes import attribute_value
from emulator.trace.files.workload_graph import BadGraphNode, graph_node


def attributes(**keys: object) -> dict[str, tuple[str | None, object]]:
    """Name → (type, value) of the attributes that these keys become."""
    node = graph_node({"id": 1, **keys})
    return {one.name: (one.WhichOneof("value"), attribute_value(one)) for one in node.attr}


@pytest.mark.parametrize("key", ["ctrlDeps", "ctrl_deps", "CTRL_DEPS", "ctrldeps"])
def test_keys_are_known_whatever_their_case_and_underscores(key: str) -> None:
    assert list(graph_node({"ID": "7", key: [1, "2", 3.0]}).ctrl_deps) == [1, 2, 3]


@pytest.mark.parametrize("value", ["COMM_COLL_NODE", "comm_coll", "COMM_COLL", 7, "7"])
def test_a_node_type_may_be_a_name_or_a_number(value: object) -> None:
    assert graph_node({"id": 1, "type": value}).type == et_pb2.COMM_COLL_NODE


@pytest.mark.parametrize("value", ["ALL_GATHER", "all_gather", 2, "2"])
def test_a_collective_may_be_a_name_or_a_number(value: object) -> None:
    assert attributes(commType=value) == {"comm_type": ("int64_val", 2)}


def test_a_field_takes_all_of_64_bits() -> None:
    assert graph_node({"id": (1 << 64) - 1}).id == (1 << 64) - 1
    assert graph_node({"id": str((1 << 64) - 1)}).id == (1 << 64) - 1
    assert attributes(comm_size=(1 << 63) - 1)["comm_size"] == ("int64_val", (1 << 63) - 1)


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (True, ("bool_val", True)),
        (-5, ("int64_val", -5)),
        (0.5, ("double_val", 0.5)),
        ("a", ("string_val", "a")),
        ([1, -2], ("int64_list", (1, -2))),
        ([], ("int64_list", ())),
        ([True], ("string_val", "[true]")),
        (1 << 63, ("string_val", str(1 << 63))),
        ([1 << 63], ("string_val", f"[{1 << 63}]")),
        ({"a": [1]}, ("string_val", '{"a": [1]}')),
        ("\ud800", ("string_val", "?")),
    ],
)
def test_a_key_without_a_meaning_keeps_its_value_as_an_attribute(value: object, stored: tuple[str, object]) -> None:
    assert attributes(colour=value) == {"colour": stored}


def test_null_is_the_same_as_no_key() -> None:
    assert attributes(colour=None, comm_type=None, pg_name=None) == {}


def test_a_group_name_is_text_even_where_it_is_a_number() -> None:
    assert attributes(pgName=3) == {"pg_name": ("string_val", "3")}


@pytest.mark.parametrize(("value", "is_cpu"), [(True, True), (0, False), ("1", True)])
def test_is_cpu_op_is_a_boolean(value: object, is_cpu: bool) -> None:
    assert attributes(is_cpu_op=value) == {"is_cpu_op": ("bool_val", is_cpu)}


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ([], "is not an object"),
        ({"name": "n"}, "has no id"),
        ({"id": -1}, r"id is outside 0 … 2\*\*64 - 1: -1"),
        ({"id": 1 << 64}, r"id is outside 0 … 2\*\*64 - 1"),
        ({"id": 1.5}, "id is not an integer: '1.5'"),
        ({"id": None}, "id is not an integer: 'None'"),
        ({"id": "x" * 99}, f"id is not an integer: '{'x' * 40}'$"),
        ({"id": 1, "name": 3}, "name is not a string"),
        ({"id": 1, "dataDeps": 3}, "dataDeps is not a list"),
        ({"id": 1, "dataDeps": [-3]}, "dataDeps is outside"),
        ({"id": 1, "NodeType": "COMPUTER"}, "NodeType is unknown: 'COMPUTER'"),
        ({"id": 1, "NodeType": 1 << 31}, "NodeType is unknown: 2147483648"),
        ({"id": 1, "commType": "ALL"}, "commType is unknown: 'ALL'"),
        ({"id": 1, "commSize": 1 << 63}, "commSize needs more than 64 bits"),
        ({"id": 1, "is_cpu_op": "yes"}, "is_cpu_op is not an integer: 'yes'"),
    ],
)
def test_an_entry_that_is_not_a_node_names_the_key(entry: object, problem: str) -> None:
    with pytest.raises(BadGraphNode, match=problem):
        graph_node(entry)
