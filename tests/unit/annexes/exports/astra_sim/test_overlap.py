"""Communication that overlaps on a rank is counted."""

from __future__ import annotations

from pathlib import Path

import pytest

from emulator.annexes.exports.astra_sim.overlap import overlapping
from tests.support.runs import Row, collective, pair, write_run


@pytest.mark.parametrize(("second_post", "expected"), [(100, 0), (99, 2), (0, 2)])
def test_a_post_before_the_completion_of_the_last_one_overlaps(tmp_path: Path, second_post: int, expected: int) -> None:
    first = collective([0, 0], [100, 100], instance=0)
    second = collective([second_post] * 2, [200, 200], instance=1, node_id=9)
    assert overlapping(write_run(tmp_path / "run", [*first, *second])) == (expected, 4)


def test_a_short_one_inside_a_long_one_does_not_hide_the_next(tmp_path: Path) -> None:
    samples: list[Row] = []
    for instance, (post, done) in enumerate([(0, 100), (10, 20), (50, 60)]):
        samples += collective([post, post], [done, done], instance=instance, node_id=instance)
    assert overlapping(write_run(tmp_path / "run", samples)) == (4, 6)


def test_receives_and_groups_of_one_do_not_count(tmp_path: Path) -> None:
    samples = [*pair(0, 500, instance=0), *collective([0], [600], instance=1, node_id=9)]
    assert overlapping(write_run(tmp_path / "run", samples)) == (0, 1)


def test_iterations_do_not_overlap_one_another(tmp_path: Path) -> None:
    samples = [*collective([0, 0], [100, 100]), *collective([0, 0], [100, 100], iteration=1)]
    assert overlapping(write_run(tmp_path / "run", samples))[0] == 0
