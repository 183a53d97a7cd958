"""Tags of transfers: every field comes back, and kinds never collide."""

from hypothesis import given
from hypothesis import strategies as st

from agents.play.tags import CREDIT, DATA, MAX_LANES, PAIR, SERIAL_MASK, credit_tag, data_tag, pair_tag, split

SERIALS = st.integers(0, SERIAL_MASK)


@given(SERIALS, st.integers(0, MAX_LANES - 1))
def test_fields_come_back(serial: int, lane: int) -> None:
    assert split(data_tag(serial, lane)) == (DATA, lane, serial)
    assert split(credit_tag(serial)) == (CREDIT, 0, serial)
    assert split(pair_tag(serial)) == (PAIR, 0, serial)


@given(SERIALS, st.integers(0, MAX_LANES - 1))
def test_kinds_never_collide_and_tags_fit_64_bits(serial: int, lane: int) -> None:
    tags = [data_tag(serial, lane), credit_tag(serial), pair_tag(serial)]
    assert len(set(tags)) == 3
    assert all(0 <= tag < 1 << 64 for tag in tags)
