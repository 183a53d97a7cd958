"""Addresses of queue pairs as IP headers have them."""

from emulator.roce.connection.qp_facts import packed


def test_an_address_is_packed_as_in_an_ip_header() -> None:
    assert packed("10.99.0.2") == bytes((10, 99, 0, 2))
    assert packed("fd99::2") == b"\xfd\x99" + bytes(13) + b"\2"
