"""Names for cells of a table."""

import pytest

from emulator.visible import short


@pytest.mark.parametrize(("most", "shown"), [(10, "abcdefghij"), (9, "abcd…ghij"), (8, "abc…ghij"), (3, "a…j")])
def test_a_name_that_is_too_long_keeps_both_ends_within_its_limit(most: int, shown: str) -> None:
    assert short("abcdefghij", most) == shown


def test_what_a_terminal_would_obey_counts_as_it_is_shown() -> None:
    assert short("ab\ncd", 6) == r"ab\ncd"
    assert short("ab\ncd", 5) == r"ab…cd"
