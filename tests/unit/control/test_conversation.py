"""What controller and agents say to each other: when something has moved, and what an agent keeps."""

from dataclasses import replace

import pytest

from emulator.control.conversation import Progress, RankPlace

STILL = Progress(bytes_sent=10, events=3, computing=False, waiting_on="rank 0: node 4")


def test_the_first_report_is_movement() -> None:
    assert STILL.has_moved(None)


def test_the_same_report_again_is_none() -> None:
    assert not STILL.has_moved(STILL)


@pytest.mark.parametrize(
    "change",
    [{"bytes_sent": 11}, {"events": 4}, {"waiting_on": "rank 1: node 2"}],
    ids=lambda change: next(iter(change)),
)
def test_bytes_nodes_and_another_wait_are_movement(change: dict[str, object]) -> None:
    assert replace(STILL, **change).has_moved(STILL)


def test_a_rank_that_computes_moves_although_nothing_changes() -> None:
    computing = replace(STILL, computing=True)
    assert computing.has_moved(computing)


def test_a_peer_that_stays_silent_for_longer_is_no_movement() -> None:
    assert not replace(STILL, silence=(0, 1), silence_ns=5).has_moved(STILL)


@pytest.mark.parametrize(("nodes", "is_resident"), [(7, True), (8, True), (9, False)])
def test_a_program_that_fits_the_window_is_kept(nodes: int, is_resident: bool) -> None:
    assert RankPlace(rank=0, host="127.0.0.1", nodes=nodes, window=8).is_resident is is_resident
