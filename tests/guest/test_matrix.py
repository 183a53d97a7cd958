"""A seeded part of the matrix of stock perftest tests; `python -m tests.guest.matrix` plays all of it."""

import pytest

from tests.guest.image import NoGuest
from tests.guest.machine import Guest
from tests.guest.matrix import Cell, cells, play, sample
from tests.support.full import IS_FULL

PART = 12 if IS_FULL else 6
"""Every value of every axis is among them."""
SEED = 1


@pytest.mark.lab
@pytest.mark.timeout(300)
def test_stock_perftest_and_charkha_count_the_same() -> None:
    """One test, as one machine plays all cells."""
    guest = Guest()
    try:
        guest.up()
        problems = {str(cell): play(guest, cell) for cell in sample(PART, seed=SEED)}
    except NoGuest as error:
        pytest.skip(f"a guest with rdma_rxe {error}")
    finally:
        guest.down()
    assert {cell: found for cell, found in problems.items() if found} == {}


def test_a_part_of_the_matrix_has_every_value_of_every_axis() -> None:
    for axis in Cell.__slots__:
        assert {getattr(cell, axis) for cell in sample(PART, seed=SEED)} == {getattr(cell, axis) for cell in cells()}
