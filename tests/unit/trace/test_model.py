"""Numbers and names of the trace model are those of Chakra's schema."""

import pytest

from emulator._pb import et_pb2
from emulator.trace.meaning.model import CommKind, Group, NodeType


@pytest.mark.parametrize("kind", [kind for kind in CommKind if kind.is_collective])
def test_a_collective_has_the_number_of_the_schema(kind: CommKind) -> None:
    assert et_pb2.CollectiveCommType.Value(kind.name) == kind


@pytest.mark.parametrize("node_type", NodeType)
def test_a_node_type_has_the_number_of_the_schema(node_type: NodeType) -> None:
    assert et_pb2.NodeType.Value(f"{node_type.name}_NODE") == node_type


def test_every_collective_of_the_schema_has_a_kind() -> None:
    numbers = set(et_pb2.CollectiveCommType.values())
    assert numbers == {int(kind) for kind in CommKind if kind.is_collective}


def test_send_and_receive_and_storage_are_not_collectives() -> None:
    others = [kind for kind in CommKind if not kind.is_collective]
    assert [kind.label for kind in others] == ["send", "recv", "storage_write", "storage_read"]
    assert [kind.rows for kind in others] == [2, 2, 1, 1]


def test_the_length_of_a_group_is_its_number_of_ranks() -> None:
    assert len(Group("tp", (0, 3, 5))) == 3
