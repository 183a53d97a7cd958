"""However a document is cut into blocks, its elements are those of the whole; what is no document says where."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from emulator.trace.files.json_elements import BadDocument, ElementReader


class Around(msgspec.Struct):
    name: str = ""


class Number(msgspec.Struct):
    value: int = 0


class Blocks:
    """Bytes that come in blocks of a size, whatever is asked for."""

    def __init__(self, data: bytes, block: int) -> None:
        self.data, self.block = data, block

    def read_at_least(self, count: int) -> bytes:
        found, self.data = self.data[: self.block], self.data[self.block :]
        return found


def elements(
    data: bytes, *, block: int = 1 << 20, element: Any = dict[str, Any], **limits: int
) -> tuple[Any, list[Any]]:
    reader = ElementReader(Blocks(data, block), "list", element=element, around=Around, **limits)
    found = []
    for first, batch in reader.batches():
        assert first == len(found)
        found += batch
    assert reader.tail is not None
    return reader.head.name or reader.tail.name, found


VALUES = st.recursive(
    st.none() | st.integers(-9, 9) | st.text(st.sampled_from('ab"\\{}[],: é'), max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["id", "x", "list"]), inner, max_size=3)
    ),
    max_leaves=4,
)
SLOWLY = settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
RECORDS = st.lists(st.dictionaries(st.sampled_from(["id", "name", "},{", "list"]), VALUES, max_size=3), max_size=5)


@SLOWLY
@given(RECORDS, st.integers(1, 60), st.sampled_from([None, 1]), st.booleans())
def test_elements_do_not_depend_on_blocks(records: list[Any], block: int, indent: int | None, is_before: bool) -> None:
    around = {"name": "n", "other": [{"list": [1]}]}
    document = {**around, "list": records} if is_before else {"list": records, **around}
    data = json.dumps(document, indent=indent).encode()
    assert elements(data, block=block) == ("n", records)


def test_the_list_is_the_one_of_the_outermost_object() -> None:
    assert elements(b'{"a": {"list": [{"b": 1}]}, "c": "\\"list\\": [", "list": [{"d": 2}]}') == ("", [{"d": 2}])


@SLOWLY
@given(RECORDS, st.integers(1, 60), st.data())
def test_a_document_that_ends_early_is_refused(records: list[Any], block: int, data: st.DataObject) -> None:
    whole = json.dumps({"list": records, "name": "n"}).encode()
    cut = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(BadDocument):
        elements(whole[:cut], block=block)


@pytest.mark.parametrize("block", [7, 1 << 20])
@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b'{"list": [{"value": 1}, {"value": "x"}]}', "record 1.value: Expected `int`, got `str`"),
        (b'{"list": [{"value": 1}, 7]}', "record 1: Expected `object`, got `int`"),
        (b'{"list": [{"value": 1} 7]}', "expected ',' or ']' (byte 23)"),
        (b'{"list": [{"value": 1}, {"value": 2}', "the file ends within it (byte 36)"),
        (b'{"list": [{"value": 1}], "name": 3}', "after the list of its records: Expected `str`, got `int`"),
        (b'{"list": [{"value": 1}]} {}', "after the list of its records"),
        (b'{"name": "x"}', "the list of its records is missing"),
        (b'{"name": 5, "list": []}', "Expected `str`, got `int` - at `$.name`"),
        (b'{"list": [{"value": 1}, {"x": ' + b"[" * 5000, "the file ends within it|recursion"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(data: bytes, problem: str, block: int) -> None:
    with pytest.raises(BadDocument) as caught:
        elements(data, block=block, element=Number)
    assert any(one in str(caught.value) for one in problem.split("|")), caught.value


def test_an_endless_element_is_refused_before_it_fills_the_memory() -> None:
    data = b'{"list": [{"x": "' + b"a" * 5000 + b'"}]}'
    with pytest.raises(BadDocument, match="a part of it is longer than"):
        elements(data, block=100, most_bytes=1000)


def test_memory_is_that_of_a_block_not_of_the_document() -> None:
    """Batches come before the document has been read to its end."""
    data = b'{"list": [' + b",".join(b'{"value": %d}' % number for number in range(2000)) + b"]}"
    source = Blocks(data, 500)
    reader = ElementReader(source, "list", element=Number, around=Around)
    _, first = next(reader.batches())
    assert len(first) < 50
    assert len(source.data) > len(data) - 1100


MENDED = [
    (b'{"a": "\xff"}, {"a": 1}', 7, [{"a": "?"}, {"a": 1}]),
    (b'{"a": "\xc3\xa9\xc3("}, {"a": 1}', 9, [{"a": "é?("}, {"a": 1}]),
    (b'{"a": inf, "b": 1}, {"a": 1}', 6, [{"a": None, "b": 1}, {"a": 1}]),
    (b'{"a": [1, -Infinity]}', 11, [{"a": [1, None]}]),
    (b'{"a": NaN}', 6, [{"a": None}]),
    (b'{"a": 1}\n{"a": 2}', 9, [{"a": 1}, {"a": 2}]),
    (b'{"a": 1}, {"a": 2},\n', 20, [{"a": 1}, {"a": 2}]),
]


@pytest.mark.parametrize("block", [1, 3, 64, 1 << 20])
@pytest.mark.parametrize(("text", "place", "expected"), MENDED)
def test_what_pytorch_writes_wrongly_is_read_and_counted(
    text: bytes, place: int, expected: list[Any], block: int
) -> None:
    """Text that is none, numbers that JSON lacks, a comma missing or too many: the rest of the document is read."""
    before = b'{"name": "\xc3\xa9", "list": [{"x": "inf, nan"}, '
    reader = ElementReader(Blocks(before + text + b"]}", block), "list", element=dict[str, Any], around=Around)
    found = [one for _, batch in reader.batches() for one in batch]
    assert found == [{"x": "inf, nan"}, *expected]
    assert [one in (len(before) + place, len(before) + place + 1) for one in reader.mended] == [True]


def test_a_document_with_too_many_such_places_is_refused() -> None:
    data = b'{"list": [{"a": inf}, {"a": inf}, {"a": inf}]}'
    with pytest.raises(BadDocument, match=r"after 2 other places that are no JSON \(byte \d+\)"):
        elements(data, most_mended=2)


def test_the_key_of_the_list_within_many_other_objects_is_refused() -> None:
    def document(times: int) -> bytes:
        return b"{" + b'"x":{"items":[]},' * times + b'"items":[]}'

    reader = ElementReader(Blocks(document(3), 1 << 20), "items", element=int, around=Around)
    assert list(reader.batches()) == []
    with pytest.raises(BadDocument, match="in 64 places before it"):
        ElementReader(Blocks(document(1000), 1 << 20), "items", element=int, around=Around)
