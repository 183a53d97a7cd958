from pathlib import Path

import numpy as np
import pytest

from emulator.results.run_folder.manifest import Exclusion, Trials
from emulator.results.statistics.method.distribution import distribution, distributions
from emulator.results.statistics.samples.classes import JCT, ClassKey
from emulator.results.statistics.samples.iterations import Times, measurements
from tests.support.runs import Row, collective, pair, ranks, write_run


def times(count: int) -> Times:
    return Times(np.arange(count), np.arange(1, count + 1))


@pytest.mark.parametrize(
    ("count", "known"), [(9, []), (10, ["p90_ns"]), (20, ["p90_ns", "p95_ns"]), (100, ["p90_ns", "p95_ns", "p99_ns"])]
)
def test_a_percentile_is_there_when_the_samples_carry_it(count: int, known: list[str]) -> None:
    found = distribution(ClassKey(JCT, 2), times(count))
    tails = ("p90_ns", "p95_ns", "p99_ns", "p999_ns")
    assert [name for name in tails if getattr(found, name) is not None] == known


def test_a_thousand_samples_carry_them_all() -> None:
    found = distribution(ClassKey(JCT, 2), times(1000))
    assert (found.p50_ns, found.p90_ns, found.p95_ns, found.p99_ns, found.p999_ns, found.max_ns) == (
        500,
        900,
        950,
        990,
        999,
        1000,
    )
    assert 440 < found.median_interval_ns.low < 500 < found.median_interval_ns.high < 560


def test_warm_up_and_excluded_iterations_do_not_count(tmp_path: Path) -> None:
    rows: list[Row] = []
    for iteration, cct in ((-1, 9_000), (0, 100), (1, 5_000), (2, 120)):
        rows += collective([0, 0], [cct, cct], iteration=iteration)
        rows += pair(0, cct // 2, iteration=iteration, instance=1, size_bytes=8, algorithm="")
    run = write_run(
        tmp_path / "run",
        rows,
        iterations={n: ranks((1000 * n, 1010 * n + 300), (1000 * n + 5, 1010 * n + 310)) for n in (-1, 0, 1, 2)},
        trials=Trials(attempted=4, warmup=1, included=2, excluded=(Exclusion(1, "a rank was late"),)),
    )
    found = {one.key: one for one in distributions(measurements(run))}
    assert set(found) == {ClassKey(JCT, 2), ClassKey("all_reduce", 2, 1000, "ring"), ClassKey("send_recv", 2, 8, "")}
    reduce = found[ClassKey("all_reduce", 2, 1000, "ring")]
    assert (reduce.samples, reduce.iterations, reduce.p50_ns, reduce.max_ns) == (2, 2, 100, 120)
    assert (found[ClassKey(JCT, 2)].p50_ns, found[ClassKey(JCT, 2)].max_ns) == (310, 330)


def test_what_does_not_count_is_accounted_for(tmp_path: Path) -> None:
    early = collective([0, 0], [100, 100])
    early[0]["early"] = True
    negative = collective([0, 500], [100, 100], iteration=1)
    lonely = collective([0, 0], [100, 100], iteration=2)[:1]
    found = measurements(write_run(tmp_path / "run", [*early, *negative, *lonely]))
    (one,) = distributions(found)
    assert (one.samples, one.early, one.negative, found.incomplete) == (1, 1, 1, 1)


def test_an_iteration_that_a_rank_did_not_complete_has_no_time(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [], iterations={0: ranks((0, 100), (0, 90)), 1: ranks((0, 100))})
    found = measurements(run).classes[ClassKey(JCT, 2)]
    assert found.time_ns.tolist() == [100]
