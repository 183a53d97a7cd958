"""GIDs and addresses."""

from __future__ import annotations

import pytest

from emulator.roce.connection.gid import address_of_gid, gid_of


@pytest.mark.parametrize(
    ("host", "gid"),
    [("10.99.0.2", "00000000000000000000ffff0a630002"), ("fd99::2", "fd990000000000000000000000000002")],
)
def test_a_gid_is_the_address(host: str, gid: str) -> None:
    assert gid_of(host).hex() == gid
    assert address_of_gid(bytes.fromhex(gid)) == host
