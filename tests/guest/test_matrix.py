"""A seeded part of the matrix of stock perftest tests; `python -m tests.guest.matrix` plays all of it."""

from __future__ import annotations

import pytest

from tests.guest.image import NoGuest
from tests.guest.machine import Guest
from tests.guest.matrix import Cell, Frame, cells, icrc_is_right, play, roce_frames, sample
from tests.support.full import IS_FULL
from tests.support.shared_traces import require_shared

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


def test_a_flipped_bit_is_found_without_the_audit() -> None:
    frame = next(roce_frames(require_shared("golden", "rocev2", "write_only_64.pcap")))
    assert icrc_is_right(frame)
    broken = bytearray(frame.udp)
    broken[40] ^= 4
    assert not icrc_is_right(Frame(frame.network, bytes(broken), frame.source))
