"""Columns that terminal tables and reports share."""

import pytest

from emulator.views.columns.columns import Column, Header, explain, filled, row_to_json, unshown
from emulator.views.columns.figures import NONE


@pytest.mark.parametrize(
    ("header", "title", "name"),
    [
        ("busbw\nGB/s", "", "busbw GB/s"),
        ("dupli-\ncates", "", "duplicates"),
        ("\np99", "cct p99", "cct p99"),
        ("\nmax", "", "max"),
    ],
)
def test_the_name_is_the_header_on_one_line(header: str, title: str, name: str) -> None:
    assert Header(header, title=title).name == name


def test_optional_columns_without_a_value_are_hidden() -> None:
    always = Column("a", cell=lambda row: NONE)
    some = Column("b", cell=lambda row: "5" if row else NONE, is_optional=True)
    never = Column("c", cell=lambda row: NONE, is_optional=True)
    assert [one.name for one in filled([always, some, never], [0, 1])] == ["a", "b"]
    assert [one.name for one in filled([always, some, never], [])] == ["a"]


def test_meanings_are_aligned_and_carry_the_unit() -> None:
    headers = [
        Header("n", "number of measurements"),
        Header("busbw\nGB/s", "bus bandwidth", unit="1e9 bytes per second"),
    ]
    assert explain(headers, title="Classes:").splitlines() == [
        "Classes:",
        "  n           number of measurements",
        "  busbw GB/s  bus bandwidth (1e9 bytes per second)",
    ]


def test_long_meanings_wrap_below_themselves_and_not_at_hyphens() -> None:
    lines = explain([Header("x", "go-back-N " * 20)]).splitlines()
    assert len(lines) > 1
    assert max(map(len, lines)) <= 100
    assert all(line.startswith("     go-back-N") and line.endswith("go-back-N") for line in lines[1:])


def test_a_column_has_its_value_for_json_and_its_cell_for_readers() -> None:
    columns: list[Column[Header]] = [
        Column("title", key="title"),
        Column("number", cell=lambda row: "yes" if row.is_number else "no"),
        unshown("long", lambda row: len(row.header)),
    ]
    row = Header("ab")
    assert row_to_json(columns, row) == {"title": "", "long": 2}
    assert [one.cell(row) for one in filled(columns, [row])] == [NONE, "yes"]
    assert explain([unshown("long")]) == ""
