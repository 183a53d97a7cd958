"""A chunk of a program has as many nodes as positions."""

import numpy as np

from emulator.planner.rank_program import Chunk


def test_the_length_of_a_chunk_is_its_number_of_nodes() -> None:
    chunk = Chunk(
        rank=3,
        first_position=7,
        node_id=np.array([11, 12], dtype=np.uint64),
        resource=np.zeros(2, dtype=np.uint32),
        duration_ns=np.zeros(2, dtype=np.uint64),
        dependencies=np.array([0, 3], dtype=np.uint32),
        distance=np.array([1, 2, 3], dtype=np.uint64),
        communications={},
    )
    assert len(chunk) == 2
