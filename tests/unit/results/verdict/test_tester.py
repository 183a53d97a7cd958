from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from emulator.results.statistics.metric import Reading
from emulator.results.statistics.summary import RunSummary, summarise
from emulator.results.verdict.tester import judge_tester
from tests.support.runs import collective, write_run


@pytest.fixture
def summary(tmp_path: Path) -> RunSummary:
    return summarise(write_run(tmp_path / "run", collective([0, 0], [1000, 1000])))


def with_tester(summary: RunSummary, **facts: object) -> RunSummary:
    return replace(summary, tester=replace(summary.tester, **facts))  # type: ignore[arg-type]


def test_a_quiet_tester_has_no_problem(summary: RunSummary) -> None:
    quiet = with_tester(summary, core_wait_fraction=0.2, steal_fraction=0.02, post_lateness_median_ns=100)
    assert judge_tester(quiet).problems == ()
    assert judge_tester(quiet).doubt() == ""


@pytest.mark.parametrize(
    ("facts", "problem"),
    [
        ({"core_wait_fraction": 0.21}, "an agent waited for a core 21 % of the time"),
        ({"steal_fraction": 0.021}, "the hypervisor took 2.1 % of the cores' time (steal)"),
        ({"post_lateness_median_ns": 101}, "posts were 101 ns late at the median, the shortest cct is 1 µs"),
    ],
)
def test_each_sign_of_a_slow_tester_is_named_with_its_figure(
    summary: RunSummary, facts: dict[str, float], problem: str
) -> None:
    assert judge_tester(with_tester(summary, **facts)).problems == (problem,)


def test_a_class_is_judged_by_the_waits_during_its_own_collectives(summary: RunSummary) -> None:
    state = judge_tester(with_tester(summary, core_wait_fraction=0.5, post_lateness_median_ns=900))
    assert state.doubt(Reading(None, 1.0)) == "an agent waited for a core 50 % of the time"
    assert state.doubt(Reading(None, 1.0, core_wait_fraction=0.3)) == "an agent waited for a core 30 % of the time"
    assert state.doubt(Reading(None, 1.0, core_wait_fraction=0.1)) == ""
    stolen = judge_tester(with_tester(summary, steal_fraction=0.1))
    assert stolen.doubt(Reading(None, 1.0, core_wait_fraction=0.1)).startswith("the hypervisor took 10.0 %")


def test_drops_in_a_receiving_host_are_the_testers(summary: RunSummary) -> None:
    lossy = replace(summary, totals=replace(summary.totals, receiver_drops=1234))
    assert judge_tester(lossy).doubt() == "the receiving hosts dropped datagrams 1,234 times: their buffers were full"


def test_calibration_is_known_by_the_share_of_any_class(summary: RunSummary) -> None:
    assert not judge_tester(summary).is_calibrated
    calibrated = replace(summary, classes=tuple(replace(one, tester_percent=3.0) for one in summary.classes))
    assert judge_tester(calibrated).is_calibrated
