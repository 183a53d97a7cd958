"""Options and addresses. tests/integration/test_transport_zmq.py has the sockets."""

import errno

import pytest
import zmq

from agents.annexes.zmq import transport
from emulator.control.conversation import Address


@pytest.mark.parametrize(
    ("local", "remote", "name"),
    [
        (Address("192.0.2.1", 0), Address("192.0.2.2", 5000), "tcp://192.0.2.1:0;192.0.2.2:5000"),
        (Address("2001:db8::1", 7), Address("2001:db8::2", 5000), "tcp://[2001:db8::1]:0;[2001:db8::2]:5000"),
    ],
)
def test_a_connection_leaves_from_the_address_of_its_rank(local: Address, remote: Address, name: str) -> None:
    assert transport._remote(local, remote) == name


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (errno.EADDRNOTAVAIL, "192.0.2.1 is not an address of this host: `ip address` lists its addresses"),
        (errno.EMFILE, "cannot listen at 192.0.2.1: Too many open files; raise `ulimit -n`"),
        (errno.EACCES, "cannot listen at 192.0.2.1: Permission denied"),
    ],
)
def test_an_address_that_cannot_be_used_is_explained(code: int, text: str) -> None:
    assert str(transport._bind_error("192.0.2.1", zmq.ZMQError(code))) == text
