"""The runs of a campaign in the terminal."""

import pytest

from emulator.views.columns.figures import NONE
from emulator.views.terminal.campaign_table import render
from tests.support.terminal import rows_of, shown

RUNS = [
    {"run": "base/01", "jct_ns": 290_000_000, "problem": None},
    {"run": "lossy/01", "jct_ns": None, "problem": "aborted: agent a0 lost at rank 3 \x1b[2J of iteration 4"},
]


def test_a_run_has_its_time_or_its_problem() -> None:
    first, second, *_ = rows_of(shown(render(RUNS)))
    assert first == ["base/01", "290", "ms", NONE]
    assert second[:2] == ["lossy/01", NONE]
    assert " ".join(second[2:]) == r"aborted: agent a0 lost at rank 3 \x1b[2J of iteration 4"


@pytest.mark.parametrize("width", [50, 80])
def test_a_long_problem_is_wrapped_and_not_cut(width: int) -> None:
    text = shown(render(RUNS), width=width)
    assert max(map(len, text.splitlines())) <= width
    assert r"aborted:agenta0lostatrank3\x1b[2Jofiteration4" in "".join(
        "".join(row[2:] if row[0] == "lossy/01" else row) for row in rows_of(text)
    )
