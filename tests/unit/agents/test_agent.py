"""How often an agent reports. tests/integration has its life."""

import pytest

from agents.agent import PROGRESS_S, progress_interval_s
from emulator.controller.watchdog import SILENT_AGENT_S


@pytest.mark.parametrize(
    ("cost_s", "report_interval_s", "interval_s"),
    [*((0, 0.05, 0.25), (0.0125, 0.05, 0.25), (0.03, 0.05, 0.6), (0.3, 0.05, 1.0)), *((0, 0.2, 0.8), (0, 0.5, 1))],
)
def test_an_agent_reports_less_often_if_that_costs_it_much_or_there_are_many(
    cost_s: float, report_interval_s: float, interval_s: float
) -> None:
    assert progress_interval_s(cost_s, report_interval_s=report_interval_s) == pytest.approx(interval_s)


def test_an_agent_with_many_ranks_is_not_taken_for_dead() -> None:
    assert max(PROGRESS_S) * 5 < SILENT_AGENT_S
