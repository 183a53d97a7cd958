"""The default table at its thresholds, for every collective."""

from __future__ import annotations

import pytest

from emulator.planner.default_algorithms import (
    CHAIN_BLOCK_BYTES,
    PARALLEL_BLOCK_BYTES,
    PARALLEL_GROUP,
    RING_BLOCK_BYTES,
    SMALL_GROUP,
    TINY_BYTES,
    default_algorithm,
    default_table,
)
from emulator.trace.meaning.model import CommKind

K = CommKind


@pytest.mark.parametrize(
    ("kind", "members", "size_bytes", "name"),
    [
        *((kind, SMALL_GROUP, TINY_BYTES, "direct") for kind in (K.ALL_REDUCE, K.ALL_GATHER, K.REDUCE_SCATTER)),
        (K.ALL_REDUCE, SMALL_GROUP + 1, TINY_BYTES, "recursive_doubling"),
        (K.ALL_REDUCE, SMALL_GROUP + 1, TINY_BYTES + 1, "halving_doubling"),
        (K.ALL_REDUCE, SMALL_GROUP, TINY_BYTES + 1, "halving_doubling"),
        (K.ALL_REDUCE, 2, TINY_BYTES + 1, "ring"),
        (K.ALL_REDUCE, 3, TINY_BYTES + 1, "halving_doubling"),
        (K.ALL_REDUCE, 3, 3 * RING_BLOCK_BYTES, "ring"),
        (K.ALL_REDUCE, 3, 3 * RING_BLOCK_BYTES - 1, "halving_doubling"),
        (K.ALL_GATHER, SMALL_GROUP + 1, TINY_BYTES, "halving_doubling"),
        (K.ALL_GATHER, 2, TINY_BYTES + 1, "ring"),
        (K.ALL_GATHER, 9, RING_BLOCK_BYTES, "ring"),
        (K.ALL_GATHER, 9, RING_BLOCK_BYTES - 1, "halving_doubling"),
        (K.REDUCE_SCATTER, SMALL_GROUP + 1, TINY_BYTES, "halving_doubling"),
        (K.REDUCE_SCATTER, 2, TINY_BYTES + 1, "ring"),
        (K.REDUCE_SCATTER, 9, 9 * RING_BLOCK_BYTES, "ring"),
        (K.REDUCE_SCATTER, 9, 9 * RING_BLOCK_BYTES - 1, "halving_doubling"),
        (K.ALL_TO_ALL, PARALLEL_GROUP, 1 << 40, "parallel"),
        (K.ALL_TO_ALL, PARALLEL_GROUP + 1, (PARALLEL_GROUP + 1) * PARALLEL_BLOCK_BYTES - 1, "parallel"),
        (K.ALL_TO_ALL, PARALLEL_GROUP + 1, (PARALLEL_GROUP + 1) * PARALLEL_BLOCK_BYTES, "pairwise"),
        *((kind, 2, 1 << 40, "tree") for kind in (K.BROADCAST, K.REDUCE)),
        *((kind, 3, 3 * CHAIN_BLOCK_BYTES, "ring") for kind in (K.BROADCAST, K.REDUCE)),
        *((kind, 3, 3 * CHAIN_BLOCK_BYTES - 1, "tree") for kind in (K.BROADCAST, K.REDUCE)),
        (K.GATHER, 9, PARALLEL_BLOCK_BYTES, "parallel"),
        (K.GATHER, 9, PARALLEL_BLOCK_BYTES - 1, "tree"),
        (K.SCATTER, 9, 9 * PARALLEL_BLOCK_BYTES, "parallel"),
        (K.SCATTER, 9, 9 * PARALLEL_BLOCK_BYTES - 1, "tree"),
        (K.BARRIER, 1, 0, "dissemination"),
        (K.BARRIER, 1000, 0, "dissemination"),
    ],
)
def test_each_threshold_belongs_to_the_row_that_states_it(
    kind: CommKind, members: int, size_bytes: int, name: str
) -> None:
    assert default_algorithm(kind, members=members, size_bytes=size_bytes) == name


def test_thresholds_are_those_of_the_page() -> None:
    assert (SMALL_GROUP, PARALLEL_GROUP, TINY_BYTES) == (4, 8, 4 * 1024)
    assert (RING_BLOCK_BYTES, CHAIN_BLOCK_BYTES, PARALLEL_BLOCK_BYTES) == (64 * 1024, 128 * 1024, 32 * 1024)


def test_rows_are_in_words_and_the_last_of_each_collective_applies_always() -> None:
    rows = default_table()
    last = {collective: condition for collective, condition, _ in rows}
    assert set(last) == {kind.label for kind in K if kind.is_collective and kind is not K.REDUCE_SCATTER_BLOCK}
    assert set(last.values()) == {"otherwise", "always"}
