"""How often an agent reports. tests/integration has its life."""

from __future__ import annotations

import pytest

from agents.agent import PROGRESS_S, progress_interval_s
from emulator.controller.watchdog import SILENT_AGENT_S


@pytest.mark.parametrize(("cost_s", "interval_s"), [(0, 0.25), (0.0125, 0.25), (0.03, 0.6), (0.3, 1.0)])
def test_an_agent_reports_less_often_if_that_costs_it_much(cost_s: float, interval_s: float) -> None:
    assert progress_interval_s(cost_s, report_interval_s=0.05) == pytest.approx(interval_s)


@pytest.mark.parametrize(("report_interval_s", "interval_s"), [(0.05, 0.25), (0.2, 0.8), (0.5, 1)])
def test_an_agent_of_many_tells_its_progress_less_often(report_interval_s: float, interval_s: float) -> None:
    assert progress_interval_s(0, report_interval_s=report_interval_s) == interval_s


def test_an_agent_with_many_ranks_is_not_taken_for_dead() -> None:
    assert max(PROGRESS_S) * 5 < SILENT_AGENT_S
