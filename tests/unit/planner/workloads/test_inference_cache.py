"""Blocks that are remembered."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from emulator.planner.workloads.inference_cache import BlockCache


def test_only_the_leading_blocks_count() -> None:
    cache = BlockCache()
    assert cache.look_up([1, 2, 3]) == 0
    assert cache.look_up([1, 2, 9, 3]) == 2
    assert cache.look_up([7, 1, 2]) == 0
    assert cache.look_up([1, 2, 9, 3]) == 4


def test_past_its_capacity_the_least_recently_used_go_and_the_first_blocks_stay() -> None:
    cache = BlockCache(3)
    cache.look_up([1, 2, 3])
    assert cache.look_up([1, 5]) == 1
    assert cache.look_up([1, 2]) == 2  # 3, the last of the older prompt, went
    assert cache.look_up([1, 2, 3]) == 2


@given(st.lists(st.lists(st.integers(0, 9), unique=True), max_size=20))
def test_without_a_limit_a_block_seen_once_is_remembered(prompts: list[list[int]]) -> None:
    cache, seen = BlockCache(), set[int]()
    for prompt in prompts:
        expected = next((n for n, block in enumerate(prompt) if block not in seen), len(prompt))
        assert cache.look_up(prompt) == expected
        seen.update(prompt)
