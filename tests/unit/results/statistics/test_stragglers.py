from pathlib import Path
from random import Random

import pytest

from emulator.results.run_folder.reader import Run
from emulator.results.statistics.worst.stragglers import lateness
from tests.support.runs import Row, collective, pair, write_run

RANKS, STEPS = 4, 5


def posts(iteration: int, step: int, late: dict[tuple[int, int], int], random: Random) -> list[int]:
    """Random posts; (rank, step) in `late` comes so much later."""
    begin = 1_000_000 * iteration + 10_000 * step
    return [begin + random.randrange(1_000) + late.get((rank, step), 0) for rank in range(RANKS)]


def played(folder: Path, *, late: dict[tuple[int, int], int], iterations: int = 10) -> Run:
    random = Random(7)
    rows: list[Row] = []
    for iteration in range(iterations):
        for step in range(STEPS):
            begun = posts(iteration, step, late, random)
            done = [max(begun) + 5_000 + random.randrange(100) for _ in begun]
            rows += collective(begun, done, iteration=iteration, instance=step, name=f"step{step}", node_id=step)
    return write_run(folder, rows)


def test_a_rank_that_is_always_late_is_named_with_its_delay(tmp_path: Path) -> None:
    found = lateness(played(tmp_path / "run", late={(2, step): 3_000 for step in range(STEPS)}))
    assert [one.rank for one in found.stragglers] == [2]
    first = found.ranks[0]
    assert (first.rank, first.last, first.of, first.iterations, first.of_iterations) == (2, 50, 50, 10, 10)
    assert first.expected == pytest.approx(50 / RANKS)
    assert first.behind_ns == pytest.approx(3_000, abs=1_000)
    assert first.p == pytest.approx(4 * 0.25**10)


def test_chance_makes_no_straggler(tmp_path: Path) -> None:
    found = lateness(played(tmp_path / "run", late={}))
    assert found.stragglers == []
    assert sum(one.last for one in found.ranks) == 50


def test_a_late_step_is_named_with_its_rank(tmp_path: Path) -> None:
    found = lateness(played(tmp_path / "run", late={(1, 3): 8_000}), steps=2)
    assert len(found.steps) == 2
    worst = found.steps[0]
    assert (worst.name, worst.instance, worst.rank, worst.last, worst.of) == ("step3", 3, 1, 10, 10)
    assert worst.p < 0.001
    assert worst.spread_ns > 8_000
    assert found.steps[1].p > 0.05


def test_many_collectives_of_one_iteration_are_no_proof(tmp_path: Path) -> None:
    """One delay makes a rank last everywhere: with a single iteration that is one observation."""
    found = lateness(played(tmp_path / "run", late={(2, step): 3_000 for step in range(STEPS)}, iterations=1))
    assert found.ranks[0].rank == 2
    assert found.ranks[0].last == STEPS
    assert found.stragglers == []


def test_who_is_served_last_is_another_question(tmp_path: Path) -> None:
    rows: list[Row] = []
    for iteration in range(10):
        rows += collective([50, 0, 0], [1_000, 1_000, 1_400], iteration=iteration)
    run = write_run(tmp_path / "run", rows)
    assert [one.rank for one in lateness(run, "post").stragglers] == [0]
    assert [one.rank for one in lateness(run, "done").stragglers] == [2]
    assert lateness(run, "done").ranks[0].behind_ns == 400


def test_pairs_and_unfinished_collectives_have_no_last(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [*pair(0, 50), *collective([0, 9], [20, 20], instance=1)[:1]])
    found = lateness(run)
    assert (found.ranks, found.steps) == ([], [])
