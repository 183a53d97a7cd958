import pytest

from emulator.statistics.nccl_conventions import busbw_factor, nccl_size
from emulator.trace.model import CommKind

K = CommKind

# Worked out by hand from nccl-tests' performance notes: for a comm_size of 1,200 bytes and 2, 3 and 8 ranks, the size
# that nccl-tests names and bus bandwidth over algorithm bandwidth.
BY_HAND = [
    (K.ALL_REDUCE, (1200, 1200, 1200), (1, 4 / 3, 1.75)),
    (K.REDUCE, (1200, 1200, 1200), (1, 1, 1)),
    (K.ALL_GATHER, (2400, 3600, 9600), (1 / 2, 2 / 3, 7 / 8)),
    (K.GATHER, (2400, 3600, 9600), (1 / 2, 2 / 3, 7 / 8)),
    (K.SCATTER, (1200, 1200, 1200), (1 / 2, 2 / 3, 7 / 8)),
    (K.BROADCAST, (1200, 1200, 1200), (1, 1, 1)),
    (K.ALL_TO_ALL, (1200, 1200, 1200), (1 / 2, 2 / 3, 7 / 8)),
    (K.REDUCE_SCATTER, (1200, 1200, 1200), (1 / 2, 2 / 3, 7 / 8)),
    (K.REDUCE_SCATTER_BLOCK, (1200, 1200, 1200), (1 / 2, 2 / 3, 7 / 8)),
    (K.SEND, (1200, 1200, 1200), (1, 1, 1)),
]


@pytest.mark.parametrize(("kind", "sizes", "factors"), BY_HAND)
def test_size_and_factor_are_those_of_nccl_tests(
    kind: CommKind, sizes: tuple[int, ...], factors: tuple[float, ...]
) -> None:
    for members, size, factor in zip((2, 3, 8), sizes, factors, strict=True):
        assert nccl_size(kind, size_bytes=1200, members=members) == size
        assert busbw_factor(kind, members=members) == pytest.approx(factor)


def test_the_table_covers_every_collective() -> None:
    assert {kind for kind, _, _ in BY_HAND} == set(CommKind) - {K.BARRIER, K.RECV}


def test_a_barrier_and_a_group_of_one_have_no_bus_bandwidth() -> None:
    assert busbw_factor(K.ALL_REDUCE, members=1) is None
    assert busbw_factor(K.BARRIER, members=8) is None
