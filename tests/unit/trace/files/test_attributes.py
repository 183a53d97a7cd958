from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator._pb import et_pb2
from emulator.trace.files.attributes import attribute_value, make_attribute
from tests.support.trace_files import attribute


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
