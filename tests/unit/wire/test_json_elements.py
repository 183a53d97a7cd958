"""However a document is cut into blocks, its elements are those of the whole; what is no document says where."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from emulator.wire import json_elements
from emulator.wire.json_elements import BadDocument, ElementReader


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


def elements(data: bytes, *, block: int = 1 << 20, element: Any = dict[str, Any]) -> tuple[Any, list[Any]]:
    reader = ElementReader(Blocks(data, block), "list", element=element, around=Around)
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
        (b'{"list": [{"value": 1} {"value": 2}]}', "expected ',' or ']' (byte 23)"),
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


def test_an_endless_element_is_refused_before_it_fills_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_elements, "MAX_PART_BYTES", 1000)
    data = b'{"list": [{"x": "' + b"a" * 5000 + b'"}]}'
    with pytest.raises(BadDocument, match="a part of it is longer than"):
        elements(data, block=100)


def test_memory_is_that_of_a_block_not_of_the_document() -> None:
    """Batches come before the document has been read to its end."""
    data = b'{"list": [' + b",".join(b'{"value": %d}' % number for number in range(2000)) + b"]}"
    source = Blocks(data, 500)
    reader = ElementReader(source, "list", element=Number, around=Around)
    _, first = next(reader.batches())
    assert len(first) < 50
    assert len(source.data) > len(data) - 1100


@pytest.mark.parametrize("block", [1, 3, 64, 1 << 20])
@pytest.mark.parametrize("text", [b"\xff", b"ab\xc3(", b"\xc3\xa9\xed\xa0\x80"])
def test_the_byte_that_is_no_text_is_named(text: bytes, block: int) -> None:
    before = b'{"list": [{"a": "\xc3\xa9"}, {"a": 1, "b": "'
    data = before + text + b'"}, {"a": 2}, {"a": 3}]}'
    with pytest.raises(UnicodeDecodeError) as true:
        data.decode()
    wrong = true.value.start
    with pytest.raises(BadDocument, match=rf"byte 0x{data[wrong]:02x} is no UTF-8 \(byte {wrong}\)"):
        elements(data, block=block)
