from pathlib import Path

import numpy as np
import pytest

from emulator.results.comparison.interference import covered_iterations, factor, measure_interference
from emulator.results.statistics.samples.iterations import Span, Times
from tests.support.sessions import PlayedJob, write_jobs

ALONE = [1_000_000] * 9
TWICE = [2_000_000] * 9


def times(*values: int) -> Times:
    return Times(np.arange(len(values)), np.array(values, np.int64))


def test_two_jobs_that_share_all_the_time_take_twice_as_long(tmp_path: Path) -> None:
    both = {name: PlayedJob(0, TWICE, ALONE) for name in "ab"}
    found = measure_interference([write_jobs(tmp_path, both)])
    assert [one.name for one in found.jobs] == ["a", "b"]
    job = found.jobs[0]
    assert (job.covered, job.left_out, job.has_solo) == (8, 0, True)
    assert job.jct.effect.ratio == pytest.approx(2)
    assert job.jct.effect.interval == pytest.approx((2, 2))
    assert (job.jct.solo_ns, job.jct.shared_ns) == (1_000_000, 2_000_000)
    assert found.fairness == pytest.approx(1)
    _, all_reduce = job.classes
    assert (all_reduce.key.collective, all_reduce.effect.ratio) == ("all_reduce", pytest.approx(1.4e6 / 0.4e6))


def test_iterations_that_the_other_job_does_not_cover_are_left_out_and_counted(tmp_path: Path) -> None:
    """b begins when two iterations of a are over, and ends two before a does."""
    jobs = {
        "a": PlayedJob(0, [1_000_000] * 3 + [2_000_000] * 6 + [1_000_000] * 2, ALONE),
        "b": PlayedJob(3_000_000, [2_000_000] * 6, ALONE),
    }
    a, b = measure_interference([write_jobs(tmp_path, jobs)]).jobs
    assert (a.covered, a.left_out) == (6, 4)
    assert (b.covered, b.left_out) == (5, 0)
    assert a.jct.effect.ratio == pytest.approx(2)
    assert a.jct.shared_samples == 6


def test_one_job_that_keeps_its_rate_is_not_fair(tmp_path: Path) -> None:
    jobs = {"a": PlayedJob(0, [1_000_000] * 17, ALONE), "b": PlayedJob(0, TWICE, ALONE)}
    found = measure_interference([write_jobs(tmp_path, jobs)])
    assert found.fairness == pytest.approx((1 + 0.5) ** 2 / (2 * (1 + 0.25)))


def test_without_a_job_alone_there_is_no_factor(tmp_path: Path) -> None:
    found = measure_interference([write_jobs(tmp_path, {"a": PlayedJob(0, TWICE), "b": PlayedJob(0, TWICE, ALONE)})])
    assert (found.jobs[0].jct.effect, found.jobs[0].jct.shared_ns, found.jobs[0].has_solo) == (None, 2_000_000, False)
    assert found.fairness is None


def test_runs_are_the_units_of_several_sessions(tmp_path: Path) -> None:
    sessions = [
        write_jobs(
            tmp_path / str(number), {name: PlayedJob(0, [2_000_000 + 1_000 * number] * 9, ALONE) for name in "ab"}
        )
        for number in range(4)
    ]
    found = measure_interference(sessions)
    jct = found.jobs[0].jct
    assert 2.0 <= jct.effect.interval.low < jct.effect.ratio < jct.effect.interval.high <= 2.0031
    assert (found.sessions, jct.shared_samples) == (4, 32)


def test_an_iteration_counts_if_every_other_job_was_there_all_the_time() -> None:
    spans = {0: Span(0, 10), 1: Span(10, 20), 2: Span(20, 30)}
    assert covered_iterations(spans, [Span(10, 30)]).tolist() == [1, 2]
    assert covered_iterations(spans, [Span(0, 30), Span(5, 20)]).tolist() == [1]
    assert covered_iterations(spans, [None]).tolist() == []
    assert covered_iterations(spans, []).tolist() == [0, 1, 2]


def test_few_iterations_have_no_interval() -> None:
    found = factor([times(1, 1, 1)], [times(2, 2, 2)])
    assert (found.ratio, found.interval) == (pytest.approx(2), None)
    assert factor([times(1)], [times()]) is None


def test_a_drift_within_a_session_widens_the_interval() -> None:
    """Stretches of iterations are the units: a thousand iterations that drift are not a thousand independent ones."""
    steady, drifting = times(*[1_000] * 1_000), times(*range(1_000, 2_000))
    found = factor([steady], [drifting])
    assert found.interval.high - found.interval.low > 0.15
