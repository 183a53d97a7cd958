"""The exchanges of rdma-core's examples over rdma_cm: rping, and rdma_client with rdma_server. No IO.

rping, a round at a time; both kinds of SEND have 16 bytes:

1. The client SENDs where its data is. The server READs it, and SENDs.
2. The client SENDs where to put it. The server WRITEs the data there, and SENDs. The client compares.

rdma_client SENDs 16 bytes, rdma_server SENDs 16 bytes, and both disconnect.

Source: rdma-core, librdmacm/examples/rping.c (struct rping_rdma_info, rping_test_client), rdma_client.c, rdma_server.c.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from emulator.errors import InputError, RemoteProtocolError
from emulator.flows.perftest_results import Latency
from emulator.roce.constants import PATH_MTUS
from emulator.roce.options import RoceOptions
from emulator.units import LARGEST_COUNT

SEND_BYTES = 16
"""Payload of every SEND."""
_ADVERTISEMENT = struct.Struct(">QII")
_FIRST, _LAST = ord("A"), ord("z")
_LEAST_BYTES, _LARGEST_BYTES = 26, 64 * 1024 - 1
"""Sizes that rping takes."""


class Exchange(StrEnum):
    """What the tool at the other end speaks; the value is its name on the command line."""

    RPING = "rping"
    RDMA_CLIENT = "rdma-client"

    @property
    def default_port(self) -> int:
        """Of the tool."""
        return 7174 if self is Exchange.RPING else 7471

    def tool(self, *, is_client: bool) -> str:
        """The program at the other end."""
        if self is Exchange.RPING:
            return "rping -c" if is_client else "rping -s"
        return "rdma_client" if is_client else "rdma_server"


@dataclass(frozen=True, slots=True)
class Advertisement:
    """Where the client of rping has its data, or wants it: address, key, and length in bytes."""

    address: int
    rkey: int
    size: int

    def pack(self) -> bytes:
        """The 16 bytes of a SEND."""
        return _ADVERTISEMENT.pack(self.address, self.rkey, self.size)

    @classmethod
    def unpack(cls, data: bytes) -> Advertisement:
        """Read the payload of a SEND.

        Raises:
            RemoteProtocolError: it does not have 16 bytes.
        """
        if len(data) != SEND_BYTES:
            raise RemoteProtocolError(
                f"the peer sent {len(data)} bytes where rping sends {SEND_BYTES}: does it run rping?"
            )
        return cls(*_ADVERTISEMENT.unpack(data))


def ping_data(number: int, size: int) -> bytes:
    """The data of a round of rping, counted from 0: its number, letters from A to z in turn, and a zero byte."""
    head = b"rdma-ping-%d: " % number
    letters = _LAST - _FIRST + 1
    return (head + bytes(_FIRST + (number + place) % letters for place in range(size - len(head))))[: size - 1] + b"\0"


@dataclass(frozen=True, slots=True, kw_only=True)
class EchoTest:
    """What to run with such a tool.

    Attributes:
        exchange: which one.
        size_bytes: data of a round.
        rounds: how many a client plays, and a server expects; 0: as many as the client plays.
        path_mtu: that a client chooses, bytes.
    """

    exchange: Exchange
    size_bytes: int
    rounds: int
    path_mtu: int

    def command(self, server: str, *, port: int, is_client: bool) -> str:
        """The command that runs the other end.

        Args:
            server: address of the server.
            port: of rdma_cm.
            is_client: the other end is the client.
        """
        tool = self.exchange.tool(is_client=is_client)
        if self.exchange is Exchange.RDMA_CLIENT:
            return f"{tool} -s {server} -p {port}" if is_client else f"{tool} -p {port}"
        count = f" -C {self.rounds}" if is_client and self.rounds else ""
        return f"{tool} -a {server} -p {port} -S {self.size_bytes}{count} -V"


def make_echo(
    exchange: Exchange, *, size_bytes: int | None, rounds: int | None, path_mtu: int | None, is_client: bool
) -> EchoTest:
    """A test from options; None: the defaults of the tool, or 1,000 rounds for a client, which rping has without end.

    Raises:
        InputError: an option is out of range, or does not apply; the message names it.
    """
    if exchange is Exchange.RDMA_CLIENT:
        if size_bytes not in (None, SEND_BYTES) or rounds not in (None, 1):
            raise InputError(
                f"--exchange {exchange}: rdma_client sends {SEND_BYTES} bytes once; omit --size and --iters"
            )
        return EchoTest(exchange=exchange, size_bytes=SEND_BYTES, rounds=1, path_mtu=_path_mtu(path_mtu))
    size_bytes = 64 if size_bytes is None else size_bytes
    if not _LEAST_BYTES <= size_bytes <= _LARGEST_BYTES:
        raise InputError(f"--size {size_bytes}: rping takes {_LEAST_BYTES} to {_LARGEST_BYTES} bytes")
    if rounds is not None and not 1 <= rounds <= LARGEST_COUNT:
        raise InputError(f"--iters {rounds}: 1 to {LARGEST_COUNT} are possible")
    if rounds is None:
        rounds = 1000 if is_client else 0
    return EchoTest(exchange=exchange, size_bytes=size_bytes, rounds=rounds, path_mtu=_path_mtu(path_mtu))


def _path_mtu(value: int | None) -> int:
    """1024 is what a device with an Ethernet MTU of 1500 has: nothing tells the client of that of its peer."""
    if value is not None and value not in PATH_MTUS:
        raise InputError(f"--path-mtu {value}: choose from {', '.join(map(str, PATH_MTUS))}")
    return 1024 if value is None else value


@dataclass(frozen=True, slots=True, kw_only=True)
class EchoTask:
    """A test and its peer: exactly one of `server` and `client` is set.

    Attributes:
        server: host to connect to.
        client: the only host that may connect.
        port: of rdma_cm.
        address: RDMA address of this host; None: the one that it uses towards the peer.
        options: of the software NIC.
    """

    test: EchoTest
    server: str | None = None
    client: str = ""
    port: int
    address: str | None = None
    options: RoceOptions

    @property
    def peer_command(self) -> str:
        """What the other end must run."""
        server = self.address or "THIS-HOST" if self.server is None else self.server
        return self.test.command(server, port=self.port, is_client=self.server is None)


@dataclass(frozen=True, slots=True, kw_only=True)
class EchoResult:
    """A test with such a tool.

    Attributes:
        role: `client` or `server`, of this end.
        host, peer_host: addresses of both ends.
        path_mtu: of the client, bytes.
        rounds: complete, with the right data.
        round_trips_ns: of each round, at the client from its first SEND to the last of the server.
        packets, retransmits, timeouts, naks, rnr_naks: of the requests of this end.
        duplicates: packets that had been received before.
    """

    test: EchoTest
    role: str
    host: str
    peer_host: str
    path_mtu: int
    rounds: int
    round_trips_ns: tuple[int, ...] = ()
    packets: int = 0
    retransmits: int = 0
    timeouts: int = 0
    naks: int = 0
    rnr_naks: int = 0
    duplicates: int = 0

    @property
    def latency(self) -> Latency | None:
        """Of whole rounds; None at a server."""
        return Latency.of(self.round_trips_ns)

    def to_json(self) -> dict[str, object]:
        """All facts as a document; units are in the names."""
        latency = self.latency
        return {
            "role": self.role,
            "host": self.host,
            "peer": {"host": self.peer_host},
            "test": {
                "exchange": self.test.exchange.value,
                "size_bytes": self.test.size_bytes,
                "path_mtu_bytes": self.path_mtu,
            },
            "rounds": self.rounds,
            "packets": self.packets,
            "retransmits": self.retransmits,
            "timeouts": self.timeouts,
            "naks": self.naks,
            "rnr_naks": self.rnr_naks,
            "duplicates": self.duplicates,
            "round_trip_ns": latency and latency.to_json(),
        }


def check_data(data: bytes, expected: bytes, *, number: int, host: str) -> None:
    """Compare the data of a round.

    Raises:
        RemoteProtocolError: it differs; the message says where.
    """
    if data == expected:
        return
    both = np.frombuffer(data.ljust(len(expected), b"\0")[: len(expected)], np.uint8) != np.frombuffer(
        expected, np.uint8
    )
    place = int(both.argmax()) if both.any() else len(expected)
    raise RemoteProtocolError(
        f"the data of round {number + 1} from {host} differs from byte {place} on: {data[place : place + 16]!r} "
        f"instead of {expected[place : place + 16]!r}"
    )
