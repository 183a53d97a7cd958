"""Memory regions: which accesses they allow, and what writing, reading and atomics do to them."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.roce.connection.memory import EVERYTHING, Access, Memory, MemoryRegion
from emulator.roce.constants import LARGEST_MESSAGE_BYTES

BASE, LENGTH, RKEY = 1 << 40, 64, 7


def region(access: Access = Access.ALL, *, has_content: bool = True) -> MemoryRegion:
    content = bytearray(range(LENGTH)) if has_content else None
    return MemoryRegion(rkey=RKEY, address=BASE, length=LENGTH, access=access, content=content)


@pytest.mark.parametrize(
    ("start", "length", "is_allowed"),
    [(0, 64, True), (63, 1, True), (0, 65, False), (63, 2, False), (-1, 1, False), (-1, 2, False), (64, 1, False)],
)
def test_an_access_is_allowed_only_within_the_region(start: int, length: int, *, is_allowed: bool) -> None:
    assert region().allows(BASE + start, length, Access.WRITE) is is_allowed


@pytest.mark.parametrize("right", list(Access))
@pytest.mark.parametrize("needed", list(Access))
def test_a_right_covers_no_other(right: Access, needed: Access) -> None:
    assert region(right).allows(BASE, 8, needed) is (right is needed)


def test_a_key_finds_its_own_region_only() -> None:
    one, other = region(), MemoryRegion(rkey=8, address=0, length=9, access=Access.READ)
    memory = Memory([one, other])
    assert memory.region(RKEY, BASE, 8, Access.WRITE) is one
    assert memory.region(8, 0, 9, Access.READ) is other
    refused = [(RKEY, 0, 9, Access.READ), (8, 0, 9, Access.WRITE), (8, 0, 10, Access.READ), (9, BASE, 8, Access.READ)]
    assert [memory.region(*access) for access in refused] == [None] * 4


@given(st.integers(0, LENGTH), st.binary(max_size=LENGTH))
def test_what_is_written_is_read_and_nothing_else_changes(start: int, data: bytes) -> None:
    target, data = region(), data[: LENGTH - start]
    target.write(BASE + start, data)
    assert target.read(BASE + start, len(data)) == data
    before = bytes(range(LENGTH))
    assert target.content == before[:start] + data + before[start + len(data) :]


def test_a_region_without_content_discards_what_is_written_and_has_nothing_to_read() -> None:
    target = region(has_content=False)
    target.write(BASE, b"abc")
    assert target.read(BASE, 3) is None


@pytest.mark.parametrize("has_content", [False, True])
def test_a_fetch_and_add_returns_the_word_before_and_wraps(*, has_content: bool) -> None:
    target = region(has_content=has_content)
    before = target.fetch_add(BASE + 8, 5)
    assert before == (int.from_bytes(bytes(range(8, 16)), sys.byteorder) if has_content else 0)
    assert target.fetch_add(BASE + 8, (1 << 64) - 1) == before + 5
    assert target.fetch_add(BASE + 8, 0) == before + 4
    assert target.fetch_add(BASE + 16, 0) != before + 4


@pytest.mark.parametrize("has_content", [False, True])
def test_a_compare_and_swap_sets_only_the_word_it_expects(*, has_content: bool) -> None:
    target = region(has_content=has_content)
    before = target.compare_swap(BASE, 99, 1)
    assert target.compare_swap(BASE, before, 77) == before
    assert target.compare_swap(BASE, before, 78) == 77
    if has_content:
        assert target.read(BASE, 16) == (77).to_bytes(8, sys.byteorder) + bytes(range(8, 16))


def test_a_message_to_any_address_is_allowed_by_a_peer_whose_addresses_are_tags_but_no_atomic() -> None:
    for address in (0, (1 << 64) - 1):
        assert EVERYTHING.region(0, address, LARGEST_MESSAGE_BYTES, Access.WRITE) is not None
        assert EVERYTHING.region(0, address, LARGEST_MESSAGE_BYTES, Access.READ) is not None
        assert EVERYTHING.region(0, address, 8, Access.ATOMIC) is None
        assert EVERYTHING.region(1, address, 8, Access.WRITE) is None
