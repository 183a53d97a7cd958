import pytest

from emulator._pb import et_pb2
from emulator.trace.files.astra_sim import is_cpu_op, make_compute, replace_attributes, takes_time
from emulator.trace.files.attributes import attribute_value
from tests.support.trace_files import attribute

METADATA, COMP, SEND = et_pb2.METADATA_NODE, et_pb2.COMP_NODE, et_pb2.COMM_SEND_NODE


@pytest.mark.parametrize(
    ("node", "is_cpu"),
    [
        (et_pb2.Node(type=COMP), False),
        (et_pb2.Node(type=METADATA), True),
        (et_pb2.Node(type=COMP, attr=[attribute("is_cpu_op", bool_val=True)]), True),
        (et_pb2.Node(type=COMP, attr=[attribute("is_cpu_op", int64_val=0)]), False),
        (et_pb2.Node(type=COMP, attr=[attribute("other", bool_val=True)]), False),
    ],
)
def test_the_attribute_or_being_metadata_puts_a_node_on_the_cpu(node: et_pb2.Node, is_cpu: bool) -> None:
    assert is_cpu_op(node) is is_cpu


def test_descriptions_of_the_trace_take_no_time() -> None:
    without = [kind for kind in et_pb2.NodeType.values() if not takes_time(et_pb2.Node(type=kind))]
    assert without == [et_pb2.INVALID_NODE, METADATA]


def test_a_node_becomes_compute_and_its_earlier_type_is_returned() -> None:
    node = et_pb2.Node(type=SEND)
    assert (make_compute(node), node.type) == ("COMM_SEND_NODE", COMP)
    assert (make_compute(node), node.type) == (None, COMP)


def test_attributes_get_the_types_that_the_simulator_reads() -> None:
    node = et_pb2.Node()
    replace_attributes(node, {"is_cpu_op": False, "comm_size": 1 << 40, "comm_src": 3, "pg_name": "1"})
    assert {one.name: (one.WhichOneof("value"), attribute_value(one)) for one in node.attr} == {
        "is_cpu_op": ("bool_val", False),
        "comm_size": ("int64_val", 1 << 40),
        "comm_src": ("int32_val", 3),
        "pg_name": ("string_val", "1"),
    }


def test_earlier_attributes_that_would_be_read_are_dropped_and_others_stay() -> None:
    earlier = [
        attribute("comm_tag", int64_val=9),
        attribute("charkha.comm_type", int64_val=1),
        attribute("note", string_val="stays"),
    ]
    node = et_pb2.Node(attr=earlier)
    replace_attributes(node, {"charkha.comm_type": 2})
    assert [(one.name, attribute_value(one)) for one in node.attr] == [("note", "stays"), ("charkha.comm_type", 2)]
