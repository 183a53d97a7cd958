"""Loopback addresses of a run's own: RoCEv2 has one port, so runs at the same time must not share an address."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator

from emulator.roce.constants import UDP_PORT
from emulator.topology.model import LOOPBACK_BLOCKS, default_loopback


@contextlib.contextmanager
def own_block() -> Iterator[int]:
    """A block of loopback addresses that no other run takes meanwhile.

    Who has the block's name among the abstract Unix sockets has the block. Like loopback they belong to the network
    namespace, and they go with the process. The addresses are tried too: others than runs may listen there.
    """
    begin = os.getpid()
    for block in range(begin, begin + LOOPBACK_BLOCKS):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as name:
            try:
                name.bind(f"\0charkha/loopback/{block % LOOPBACK_BLOCKS}")
                _try_address(default_loopback(1, block=block).address_of(0))
            except OSError:
                continue
            yield block
            return
    yield 0  # all taken: binding will say so


def _try_address(host: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind((host, UDP_PORT))
