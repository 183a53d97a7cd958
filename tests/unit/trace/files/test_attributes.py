import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator._pb import et_pb2
from emulator.errors import TraceError
from emulator.trace.files.attributes import (
    UnreadableGroups,
    attribute_value,
    make_attribute,
    merge_groups,
    parse_process_groups,
    parse_rank_list,
)
from emulator.trace.files.et import read_rank
from emulator.trace.meaning.model import NodeType, RankTrace, RawCommunication
from tests.support.trace_files import attribute, collective, write

ENTRIES = [{"pg_name": "0", "ranks": []}, {"pg_name": 7, "ranks": [2, 0], "backend": "nccl"}, {"pg_name": "x"}]
GROUPS = {"0": (), "7": (2, 0), "x": ()}


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(ENTRIES),
        json.dumps([json.dumps(ENTRIES)]),
        json.dumps([json.dumps([json.dumps(ENTRIES)])]),
        repr(ENTRIES),
        repr([json.dumps(ENTRIES)]),
    ],
    ids=["JSON", "JSON in JSON", "twice in JSON", "Python", "JSON in Python"],
)
def test_groups_are_read_in_every_quoting(text: str) -> None:
    assert parse_process_groups(text) == GROUPS


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense",
        "{}",
        "[3]",
        '["nonsense"]',
        '[{"ranks": [0]}]',
        '[{"pg_name": "0", "ranks": "01"}]',
        '[{"pg_name": "0", "members": [0, 1]}]',
        "[" * 100_000,
    ],
)
def test_text_that_describes_no_groups_is_unreadable(text: str) -> None:
    with pytest.raises(UnreadableGroups):
        parse_process_groups(text)


def test_a_long_text_is_not_parsed_at_all() -> None:
    text = json.dumps(ENTRIES)
    assert parse_process_groups(text, most_characters=len(text)) == GROUPS
    with pytest.raises(UnreadableGroups, match="characters"):
        parse_process_groups(text + " ", most_characters=len(text))


@pytest.mark.parametrize(("text", "ranks"), [("[0, 1]", (0, 1)), ("[]", ()), ("[ 3 ]", (3,))])
def test_a_list_of_ranks_is_read(text: str, ranks: tuple[int, ...]) -> None:
    assert parse_rank_list(text) == ranks


@pytest.mark.parametrize("text", ["[0, 1, ..., 7]", "[0, true]", "[0.5]", "(0, 1)", "7", '["0"]'])
def test_a_list_that_is_shortened_or_not_of_integers_is_unreadable(text: str) -> None:
    with pytest.raises(UnreadableGroups):
        parse_rank_list(text)


def test_a_second_description_adds_groups_and_may_repeat_one() -> None:
    known = {"a": (0, 1)}
    merge_groups(known, {"a": (0, 1), "b": (2,)}, path="t.0.et", node=5)
    assert known == {"a": (0, 1), "b": (2,)}


def test_a_second_description_with_other_ranks_is_an_error() -> None:
    with pytest.raises(TraceError) as error:
        merge_groups({"a": (0, 1)}, {"a": (1, 0)}, path="t.0.et", node=5)
    assert str(error.value) == "t.0.et, node 5: defines process group 'a' a second time with other ranks"


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (0, "uint64_val"),
        ((1 << 64) - 1, "uint64_val"),
        (-1, "int64_val"),
        (-(1 << 63), "int64_val"),
        (0.5, "double_val"),
        ("ring", "string_val"),
        ("", "string_val"),
        ((), "uint64_list"),
        ((0, (1 << 64) - 1), "uint64_list"),
    ],
)
def test_a_value_is_written_in_its_type_and_read_back(value: int | float | str | tuple[int, ...], kind: str) -> None:
    made = et_pb2.Attribute.FromString(make_attribute("x", value).SerializeToString())
    assert (made.name, made.WhichOneof("value")) == ("x", kind)
    assert attribute_value(made) == value


@pytest.mark.parametrize("value", [1 << 64, -(1 << 63) - 1, [1 << 64], [-1]])
def test_a_number_that_its_type_cannot_hold_is_an_error(value: int | list[int]) -> None:
    with pytest.raises(ValueError, match="range"):
        make_attribute("x", value)


@given(st.integers(-(1 << 63), (1 << 64) - 1))
def test_every_number_of_64_bits_comes_back(value: int) -> None:
    assert attribute_value(make_attribute("x", value)) == value


@pytest.mark.parametrize("kind", [one.name for one in et_pb2.Attribute.DESCRIPTOR.oneofs_by_name["value"].fields])
def test_every_type_of_the_schema_is_read(kind: str) -> None:
    scalar = {"string": "a", "bytes": b"a", "bool": True, "float": 0.5, "double": 0.5}.get(kind.split("_")[0], 3)
    is_list = kind.endswith("_list")
    made = attribute("x", **{kind: [scalar, scalar] if is_list else scalar})
    assert attribute_value(made) == ((scalar, scalar) if is_list else scalar)


def test_an_attribute_without_a_value_is_none() -> None:
    assert attribute_value(et_pb2.Attribute(name="x")) is None


INTEGER_TYPES = [
    *("int32_val", "int64_val", "uint32_val", "uint64_val", "sint32_val", "sint64_val"),
    *("fixed32_val", "fixed64_val", "sfixed32_val", "sfixed64_val"),
]
INTEGER_LISTS = [name.replace("_val", "_list") for name in INTEGER_TYPES]


def trace_of(tmp_path: Path, *nodes: et_pb2.Node) -> RankTrace:
    return read_rank(write(tmp_path / "t.0.et", nodes), 0)


def read(tmp_path: Path, *attributes: et_pb2.Attribute) -> RawCommunication:
    node = et_pb2.Node(id=3, name="n", type=et_pb2.COMM_COLL_NODE, attr=attributes)
    return trace_of(tmp_path, node).communications[0]


def test_a_bare_node_has_nothing_but_itself(tmp_path: Path) -> None:
    assert read(tmp_path) == RawCommunication(row=0, node_id=3, name="n", node_type=NodeType.COMM_COLL)


@pytest.mark.parametrize("kind", INTEGER_TYPES)
def test_integers_are_read_in_every_type(tmp_path: Path, kind: str) -> None:
    names = ("comm_type", "comm_size", "comm_src", "comm_dst", "comm_tag", "root_rank")
    found = read(tmp_path, *(attribute(name, **{kind: value}) for value, name in enumerate(names, 5)))
    assert (found.comm_type, found.comm_size, found.src, found.dst, found.tag, found.root) == (5, 6, 7, 8, 9, 10)


def test_extreme_sizes_are_read_as_they_stand(tmp_path: Path) -> None:
    assert read(tmp_path, attribute("comm_size", uint64_val=2**64 - 1)).comm_size == 2**64 - 1
    assert read(tmp_path, attribute("comm_size", int64_val=-1)).comm_size == -1


@pytest.mark.parametrize("name", ["root_rank", "comm_root", "root"])
def test_a_root_is_read_under_every_name(tmp_path: Path, name: str) -> None:
    assert read(tmp_path, attribute(name, int64_val=3)).root == 3


@pytest.mark.parametrize(
    ("given", "name"),
    [
        (attribute("pg_name", string_val="5"), "5"),
        (attribute("pg_name", string_val=""), ""),
        (attribute("pg_name", int32_val=5), "5"),
        (attribute("pg_name"), None),
        (attribute("comm_group", string_val="5"), "5"),
        (attribute("comm_group", int32_val=5), "5"),
    ],
)
def test_a_group_name_may_be_text_a_number_or_absent(tmp_path: Path, given: et_pb2.Attribute, name: str | None) -> None:
    assert read(tmp_path, given).pg_name == name


@pytest.mark.parametrize("name", ["group_ranks", "pg_ranks", "involved_ranks"])
@pytest.mark.parametrize("kind", INTEGER_LISTS)
def test_ranks_on_the_node_are_read_in_every_type(tmp_path: Path, name: str, kind: str) -> None:
    assert read(tmp_path, attribute(name, **{kind: [4, 0, 2]})).group_ranks == (4, 0, 2)


def test_ranks_on_the_node_may_be_text(tmp_path: Path) -> None:
    assert read(tmp_path, attribute("pg_ranks", string_val="[0, 4]")).group_ranks == (0, 4)
    assert read(tmp_path, attribute("pg_ranks", int64_list=[])).group_ranks is None


def test_text_that_is_no_list_of_ranks_is_counted(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, collective(1, attribute("pg_ranks", string_val="[0, 1, ..., 63]")))
    assert trace.communications[0].group_ranks is None
    assert trace.attribute_names == {"pg_ranks unreadable": 1}


@pytest.mark.parametrize(
    ("sent", "received"),
    [
        ("in_split_size", "out_split_size"),
        ("in_split_sizes", "out_split_sizes"),
        ("charkha.in_splits", "charkha.out_splits"),
    ],
)
def test_uneven_splits_are_read_under_every_name(tmp_path: Path, sent: str, received: str) -> None:
    found = read(tmp_path, attribute(sent, int64_list=[1, 2]), attribute(received, string_val="[0, 3]"))
    assert (found.in_splits, found.out_splits) == ((1, 2), (0, 3))


@pytest.mark.parametrize(
    ("bad", "problem"),
    [
        (attribute("comm_size", string_val="1K"), "attribute comm_size is '1K', not an integer"),
        (attribute("comm_type", double_val=1.0), "attribute comm_type is '1.0', not an integer"),
        (attribute("comm_src", int64_list=[1]), r"attribute comm_src is '\(1,\)', not an integer"),
        (attribute("pg_name", float_val=1), "attribute pg_name or comm_group is '1.0', not a string or an integer"),
        (attribute("group_ranks", int64_val=1), "attribute group_ranks is '1', not a list of integers"),
        (attribute("in_split_sizes", string_list=["a"]), "attribute in_split_sizes is .* a list of integers"),
    ],
)
def test_a_type_that_cannot_be_is_an_error_that_names_it(tmp_path: Path, bad: et_pb2.Attribute, problem: str) -> None:
    with pytest.raises(TraceError, match=f"node 3: {problem}"):
        read(tmp_path, bad)


def test_attributes_without_a_meaning_are_counted_and_the_usual_ones_are_not(tmp_path: Path) -> None:
    extra = [attribute("colour", bool_list=[True]), attribute("stream", int64_val=7)]
    own = [attribute("charkha.cct_ns", uint64_val=1), attribute("charkha.samples_ns", uint64_list=[1, 2])]
    trace = trace_of(tmp_path, collective(1, *extra, *own), collective(2, *extra))
    assert trace.attribute_names == {"colour": 2}


@pytest.mark.parametrize(("second", "counted"), [(1, {}), (2, {"comm_size a second time": 1})])
def test_the_first_of_two_attributes_of_one_name_counts(second: int, counted: dict[str, int], tmp_path: Path) -> None:
    node = collective(1, attribute("comm_type", int64_val=0))
    del node.attr[:]
    node.attr.extend([attribute("comm_size", int64_val=1), attribute("comm_size", int64_val=second)])
    trace = trace_of(tmp_path, node)
    assert (trace.communications[0].comm_size, trace.attribute_names) == (1, counted)


@pytest.mark.parametrize(
    ("dimensions", "named", "counted"), [([True, True], None, 0), ([True, False], None, 1), ([True, False], "5", 0)]
)
def test_dimensions_that_leave_ranks_out_are_counted_unless_the_group_is_named(
    tmp_path: Path, dimensions: list[bool], named: str | None, counted: int
) -> None:
    given = et_pb2.Attribute(name="involved_dim")
    given.bool_list.values.extend(dimensions)
    others = [] if named is None else [attribute("pg_name", string_val=named)]
    node = et_pb2.Node(id=3, name="n", type=et_pb2.COMM_COLL_NODE, attr=[given, *others])
    assert trace_of(tmp_path, node).attribute_names.get("involved_dim with a dimension left out", 0) == counted
