"""Addresses of queue pairs as IP headers have them."""

import pytest

from emulator.roce.connection.qp_facts import address_of_gid, gid_of, packed


@pytest.mark.parametrize(
    ("host", "gid"),
    [("10.99.0.2", "00000000000000000000ffff0a630002"), ("fd99::2", "fd990000000000000000000000000002")],
)
def test_a_gid_is_the_address(host: str, gid: str) -> None:
    assert gid_of(host).hex() == gid
    assert address_of_gid(bytes.fromhex(gid)) == host


def test_an_address_is_packed_as_in_an_ip_header() -> None:
    assert packed("10.99.0.2") == bytes((10, 99, 0, 2))
    assert packed("fd99::2") == b"\xfd\x99" + bytes(13) + b"\2"
