"""The name that was probably meant."""

from __future__ import annotations

import pytest

from emulator.suggestions import did_you_mean

OPTIONS = ["--topology", "--token-file", "--iterations", "--ranks"]


@pytest.mark.parametrize(
    ("word", "advice"),
    [
        ("--iteratoins", "; did you mean '--iterations'?"),
        ("--iter", "; did you mean '--iterations'?"),
        ("--to", "; did you mean '--topology' or '--token-file'?"),
        ("--Ranks", "; did you mean '--ranks'?"),
        ("-ranks", "; did you mean '--ranks'?"),
        ("-", ""),
        ("--verbose", ""),
        ("", ""),
    ],
)
def test_what_begins_with_the_word_comes_first_then_what_is_spelled_alike(word: str, advice: str) -> None:
    assert did_you_mean(word, OPTIONS) == advice


def test_at_most_three_names_are_suggested() -> None:
    assert did_you_mean("ab", ["ab1", "ab2", "ab3", "ab4"]) == "; did you mean 'ab1' or 'ab2' or 'ab3'?"
