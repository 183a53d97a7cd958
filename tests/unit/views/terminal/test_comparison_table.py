"""Comparisons in the terminal."""

import pytest

from emulator.views.terminal.comparison_table import render
from tests.support.recorded import too_few_runs
from tests.support.terminal import shown


@pytest.mark.parametrize("width", [30, 40, 60, 80])
def test_the_verdict_is_the_last_column_to_go(width: int) -> None:
    text = shown(render(too_few_runs()), width=width)
    assert "inconclusive" in text.split("Omitted at this width")[0]
