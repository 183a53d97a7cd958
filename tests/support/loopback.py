"""Loopback addresses of this process's own: port 4791 of an address can be bound once on a host.

The block is reserved as a run reserves its own, so neither runs nor tests in other processes have addresses in it.
"""

import socket
from contextlib import ExitStack
from pathlib import Path

from emulator.experiment.settle.testbed import reserved_block
from emulator.topology.model import default_loopback

_RESERVED = ExitStack()  # to the end of the process
NET = default_loopback(1, block=_RESERVED.enter_context(reserved_block())).address_of(0).rpartition(".0.1")[0]
"""`127.N`: all its addresses are free."""


def free_port() -> int:
    """A TCP port that nobody uses."""
    with socket.socket() as one:
        one.bind(("", 0))
        return int(one.getsockname()[1])


def receives_datagrams(host: str) -> bool | None:
    """True once somebody has UDP port 4791 of an IPv4 address; else None, for `wait_for`."""
    packed = socket.inet_aton(host)[::-1].hex().upper()
    return f"{packed}:12B7" in Path("/proc/net/udp").read_text() or None
