"""Names are made safe for a terminal, and short enough for a cell."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.visible import short, visible


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("all_reduce 3 µs – 1", "all_reduce 3 µs – 1"),  # noqa: RUF001
        ("a\u00a0b", "a\u00a0b"),
        ("\x1b[2Jgone", r"\x1b[2Jgone"),
        ("\x9b31m", r"\x9b31m"),
        ("\u202ereversed", r"\u202ereversed"),
        ("a\nb\tc", r"a\nb\tc"),
        ("caf\udce9", r"caf\udce9"),
    ],
)
def test_only_what_controls_a_terminal_is_escaped(name: str, shown: str) -> None:
    assert visible(name) == shown


@given(st.text())
def test_a_visible_name_can_be_written_and_does_not_change_again(name: str) -> None:
    shown = visible(name)
    assert all(one.isprintable() or unicodedata.category(one) == "Zs" for one in shown)
    assert visible(shown) == shown
    shown.encode()


@pytest.mark.parametrize(("most", "shown"), [(10, "abcdefghij"), (9, "abcd…ghij"), (8, "abc…ghij"), (3, "a…j")])
def test_a_name_that_is_too_long_keeps_both_ends_within_its_limit(most: int, shown: str) -> None:
    assert short("abcdefghij", most) == shown


def test_an_escape_counts_with_all_its_characters() -> None:
    assert short("ab\ncd", 6) == r"ab\ncd"
    assert short("ab\ncd", 5) == r"ab…cd"


@given(st.text(), st.integers(3, 20))
def test_a_short_name_has_at_most_so_many_characters(name: str, most: int) -> None:
    shown = short(name, most)
    assert len(shown) <= most
    assert ("…" in shown) or shown == visible(name)
