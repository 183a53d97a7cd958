"""24-bit arithmetic, where it wraps and where it does not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.roce.wire.psn import PSN_SPACE, Psn, add, compare, distance, wrap

PSNS = st.integers(0, PSN_SPACE - 1).map(Psn)
HALF = PSN_SPACE // 2


@pytest.mark.parametrize(
    ("start", "end", "packets"),
    [
        (0, 0, 0),
        (5, 7, 2),
        (7, 5, -2),
        (PSN_SPACE - 1, 0, 1),
        (0, PSN_SPACE - 1, -1),
        (0, HALF - 1, HALF - 1),
        (0, HALF, -HALF),
        (HALF, 0, -HALF),
    ],
)
def test_distance(start: int, end: int, packets: int) -> None:
    assert distance(Psn(start), Psn(end)) == packets


@given(PSNS, st.integers(-HALF, HALF - 1))
def test_adding_a_distance_gets_there(psn: Psn, packets: int) -> None:
    there = add(psn, packets)
    assert 0 <= there < PSN_SPACE
    assert distance(psn, there) == packets
    assert (compare(there, psn) > 0, compare(there, psn) < 0) == (packets > 0, packets < 0)


@given(st.integers())
def test_wrap_keeps_the_low_bits(value: int) -> None:
    assert wrap(value) == value % PSN_SPACE
