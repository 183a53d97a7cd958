"""The name that was probably meant."""

import pytest

from emulator.suggestions import did_you_mean

OPTIONS = ["--topology", "--token-file", "--iterations", "--ranks", "--listen"]


@pytest.mark.parametrize(
    ("word", "advice"),
    [
        ("--iteratoins", "; did you mean '--iterations'?"),
        ("--iter", "; did you mean '--iterations'?"),
        ("--to", "; did you mean '--topology' or '--token-file'?"),
        ("--Ranks", "; did you mean '--ranks'?"),
        ("-ranks", "; did you mean '--ranks'?"),
        ("-", ""),
        ("--listne", "; did you mean '--listen'?"),
        ("--iterated", "; did you mean '--iterations'?"),
        ("--verbose", ""),
        ("", ""),
    ],
)
def test_a_typo_comes_before_an_abbreviation_and_that_before_what_is_only_similar(word: str, advice: str) -> None:
    assert did_you_mean(word, OPTIONS) == advice


def test_at_most_three_names_are_suggested() -> None:
    assert did_you_mean("ab", [f"abcdef{n}" for n in range(4)]) == (
        "; did you mean 'abcdef0' or 'abcdef1' or 'abcdef2'?"
    )
