"""Tables that fit the width of a terminal."""

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from emulator.views.columns.columns import Column
from emulator.views.columns.figures import NONE
from emulator.views.terminal.table import FittedTable, facts_grid
from tests.support.terminal import rows_of, shown


class Link(NamedTuple):
    name: str
    rate: int
    note: str = NONE


COLUMNS: tuple[Column[Link], ...] = (
    Column("link", cell=lambda one: one.name, is_number=False, folds=8),
    Column("rate\nGbit/s", cell=lambda one: str(one.rate)),
    Column("note", cell=lambda one: one.note, is_number=False, is_optional=True, sacrifice=2),
    Column("twice", cell=lambda one: str(2 * one.rate), sacrifice=1),
)
LINKS = [Link("leaf0:u0", 100), Link("leaf0:u1", 25)]


def test_numbers_are_aligned_to_the_right_and_headers_to_the_bottom() -> None:
    assert shown(FittedTable(COLUMNS, LINKS)).splitlines() == [
        "            rate",
        "link      Gbit/s  twice",
        "───────────────────────",
        "leaf0:u0     100    200",
        "leaf0:u1      25     50",
    ]


def test_an_optional_column_is_there_if_one_row_has_a_value() -> None:
    assert "note" not in shown(FittedTable(COLUMNS, LINKS))
    assert "spare" in shown(FittedTable(COLUMNS, [*LINKS, Link("x", 1, "spare")]))


def test_the_least_important_columns_are_hidden_first_and_named() -> None:
    table = FittedTable(COLUMNS, [Link("leaf0:u0", 100, "between leaf and spine")])
    assert "Left out" not in shown(table, width=50)
    assert shown(table, width=30).splitlines()[-1] == "Omitted at this width: note."
    assert shown(table, width=16).replace("\n", " ").endswith("Omitted at this width: note, twice.")


def test_a_number_is_never_cut() -> None:
    table = FittedTable(COLUMNS, [Link("leaf0:u0", 100_000_000)])
    assert shown(table, width=14).splitlines()[:3] == ["link", "────────", "leaf0:u0"]


def test_the_other_cells_of_a_row_stand_beside_the_first_line_of_a_long_one() -> None:
    folded: Column[Link] = Column("name", cell=lambda one: one.name, is_number=False, folds=6)
    lines = shown(FittedTable([folded, COLUMNS[1]], [Link("all to all", 100)]), width=14).splitlines()
    assert [line.split() for line in lines[3:]] == [["all", "to", "100"], ["all"]]


def test_a_hidden_column_is_named_on_one_line() -> None:
    wide: Column[int] = Column("dupli-\ncates", cell=lambda _: "x" * 60, sacrifice=1)
    text = shown(FittedTable([Column("n", cell=str), wide], [1]), width=50)
    assert text.splitlines()[-1] == "Omitted at this width: duplicates."


def test_text_is_wrapped_only_in_columns_that_allow_it() -> None:
    table = FittedTable(COLUMNS[:2], [Link("a-very-long-name-of-a-link", 100)])
    text = shown(table, width=20)
    assert "".join(line.split()[0] for line in text.splitlines()[3:]) == "a-very-long-name-of-a-link"
    assert "100" in text
    assert "a-very-long-name-of-a-link" in shown(table, width=60)


def test_gaps_are_narrow_before_a_column_is_hidden() -> None:
    wide, narrow = shown(FittedTable(COLUMNS, LINKS), width=24), shown(FittedTable(COLUMNS, LINKS), width=21)
    assert "Left out" not in wide + narrow
    assert rows_of(wide) == rows_of(narrow)
    assert max(map(len, narrow.splitlines())) <= 21


def test_a_line_for_further_rows_comes_before_the_hidden_columns() -> None:
    links = [Link("leaf0:u0", 100, "between leaf and spine")]
    *_, more, hidden = shown(FittedTable(COLUMNS, links, more="3 more links"), width=32).splitlines()
    assert (more, hidden) == ("3 more links", "Omitted at this width: note.")


def test_a_table_without_rows_has_its_headers() -> None:
    assert shown(FittedTable(COLUMNS, [])).splitlines()[1].split() == ["link", "Gbit/s", "twice"]


def test_styles_depend_on_the_row() -> None:
    column: Column[int] = Column("n", cell=str, style=lambda row: "bold red" if row > 1 else "")
    console = Console(force_terminal=True, color_system="standard", width=40)
    with console.capture() as capture:
        console.print(FittedTable([column], [1, 2]))
    one, two = capture.get().splitlines()[-2:]
    assert "\x1b[1;31m2" in two
    assert "31m" not in one


@given(
    st.lists(st.tuples(st.text("ab 1", max_size=12), st.integers(0, 10**9), st.text("xy", max_size=20)), max_size=5),
    st.integers(30, 90),
)
def test_no_line_is_wider_than_the_terminal_and_no_number_is_cut(rows: list[tuple[str, int, str]], width: int) -> None:
    links = [Link(name, rate, note or NONE) for name, rate, note in rows]
    text = shown(FittedTable(COLUMNS, links), width=width)
    assert max(map(len, text.splitlines())) <= width
    for _, rate, _ in rows:
        assert str(rate) in text


def test_facts_are_wrapped_in_their_column() -> None:
    text = shown(facts_grid([("Flows", "a " * 30), ("DUT", "none")]), width=40)
    assert [line[:5].strip() for line in text.splitlines()] == ["Flows", "", "DUT"]


@pytest.mark.parametrize("name", ["\x1b[2J", "a\nb"])
def test_facts_cannot_control_the_terminal(name: str) -> None:
    text = shown(facts_grid([("Warning", name)]))
    assert "\x1b" not in text
    assert len(text.splitlines()) == 1
