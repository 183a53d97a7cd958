"""Blocks of an array, and the defaults of steps."""

from emulator.planner.schedule import Step, block


def test_the_first_blocks_are_one_byte_longer() -> None:
    assert [block(11, 4, index) for index in range(4)] == [(0, 3), (3, 3), (6, 3), (9, 2)]
    assert [block(8, 4, index) for index in range(4)] == [(0, 2), (2, 2), (4, 2), (6, 2)]
    assert [block(2, 4, index) for index in range(4)] == [(0, 1), (1, 1), (2, 0), (2, 0)]


def test_a_step_moves_nothing_and_stores_unless_it_says_so() -> None:
    assert Step() == ((), (), False)
