"""Names of the other end of a connection."""

import pytest

from emulator.controller.roster.stranger_limit import end_of


@pytest.mark.parametrize(
    ("grpc_peer", "end"),
    [("ipv4:192.0.2.1:5678", "192.0.2.1:5678"), ("ipv6:%5B2001:db8::1%5D:5", "2001:db8::1:5"), ("unix:", ":")],
)
def test_an_end_is_named_as_sockets_name_it(grpc_peer: str, end: str) -> None:
    assert end_of(grpc_peer) == end
