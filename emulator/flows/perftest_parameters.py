"""A test of linux-rdma's perftest: what both ends must be told before they meet, and what a user asks for.

Its exchange carries none of this.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from emulator.errors import InputError
from emulator.roce.constants import LARGEST_MESSAGE_BYTES, PATH_MTUS
from emulator.roce.options import RoceOptions
from emulator.units import LARGEST_COUNT

DEFAULT_PORT = 18515
MOST_QUEUE_PAIRS = 1024
"""More than a software NIC can serve in a second."""


class TestVerb(StrEnum):
    """A test of perftest; the value is its name on the command line."""

    __test__ = False  # not for pytest

    WRITE = "write"
    SEND = "send"
    READ = "read"
    WRITE_LATENCY = "write-lat"
    SEND_LATENCY = "send-lat"
    READ_LATENCY = "read-lat"

    @property
    def is_latency(self) -> bool:
        """Whether one message is in flight at a time."""
        return self.value.endswith("-lat")

    @property
    def operation(self) -> str:
        """`write`, `send` or `read`."""
        return self.value.partition("-")[0]

    @property
    def tool(self) -> str:
        """The program at the other end."""
        return f"ib_{self.operation}_{'lat' if self.is_latency else 'bw'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerTest:
    """A test; defaults are those of perftest where it has any.

    Attributes:
        verb: what is tested.
        size_bytes: payload of a message.
        iterations: messages per queue pair; 0: as many as `duration_s` allows.
        duration_s: how long to send, s; 0: until all iterations are done. Both 0: until this end is told to end.
        queue_pairs: how many share the load.
        path_mtu: largest payload of a packet, bytes; the smaller one of both ends counts.
        is_bidirectional: both ends send at once.
    """

    verb: TestVerb
    size_bytes: int
    iterations: int
    duration_s: float = 0.0
    queue_pairs: int = 1
    path_mtu: int = 4096
    is_bidirectional: bool = False

    @property
    def is_open_ended(self) -> bool:
        """Whether this end decides when it is over."""
        return not self.iterations and not self.duration_s

    def command(self, server: str | None = None, *, port: int = DEFAULT_PORT, rdma_cm: bool = False) -> str:
        """The command that runs the other end with stock tools.

        Args:
            server: the host it connects to, if it does.
            port: of the exchange.
            rdma_cm: the queue pairs are connected with rdma_cm.
        """
        words = [self.verb.tool, f"--size={self.size_bytes}", f"--mtu={self.path_mtu}"]
        if not self.is_open_ended:
            words += [f"--iters={self.iterations}"] if self.iterations else [f"--duration={self.duration_s:g}"]
        words += [f"--qp={self.queue_pairs}"] if self.queue_pairs > 1 else []
        words += ["--bidirectional"] if self.is_bidirectional else []
        words += [f"--port={port}"] if port != DEFAULT_PORT else []
        words += ["--rdma_cm"] if rdma_cm else []
        return " ".join([*words, *([server] if server else [])])


def make_test(
    verb: TestVerb,
    *,
    size_bytes: int | None = None,
    iterations: int | None = None,
    duration_s: float | None = None,
    queue_pairs: int = 1,
    path_mtu: int = 4096,
    is_bidirectional: bool = False,
    is_open_ended: bool = False,
) -> PeerTest:
    """A test from options; None: as perftest has it.

    Args:
        is_open_ended: without iterations and duration, this end is told when to end.

    Raises:
        InputError: the options do not fit each other, or are out of range; the message names the option.
    """
    size_bytes = (2 if verb.is_latency else 65536) if size_bytes is None else size_bytes
    if not 1 <= size_bytes <= LARGEST_MESSAGE_BYTES:
        raise InputError(f"--size {size_bytes}: messages of 1 byte to 2 GiB are possible")
    if duration_s is not None and iterations is not None:
        raise InputError("--iters and --duration: give one of them")
    if duration_s is not None and not 0 < duration_s <= LARGEST_COUNT:
        raise InputError(f"--duration {duration_s:g}: give a number of seconds above 0")
    if iterations is None and duration_s is None and is_open_ended:
        iterations = 0
    elif iterations is None:
        iterations = 0 if duration_s else (5000 if verb is TestVerb.WRITE else 1000)
    elif not (least := 2 if verb.is_latency else 1) <= iterations <= LARGEST_COUNT:
        raise InputError(f"--iters {iterations}: {least} to {LARGEST_COUNT} are possible")
    if path_mtu not in PATH_MTUS:
        raise InputError(f"--path-mtu {path_mtu}: choose from {', '.join(map(str, PATH_MTUS))}")
    if not 1 <= queue_pairs <= MOST_QUEUE_PAIRS:
        raise InputError(f"--qps {queue_pairs}: 1 to {MOST_QUEUE_PAIRS} are possible")
    if verb.is_latency and queue_pairs > 1:
        raise InputError(f"--qps {queue_pairs}: a latency test has one queue pair, as {verb.tool} has")
    if verb.is_latency and is_bidirectional:
        raise InputError(f"--bidirectional: --verb {verb.value} already sends in turns; omit the option")
    return PeerTest(
        verb=verb,
        size_bytes=size_bytes,
        iterations=iterations,
        duration_s=duration_s or 0.0,
        queue_pairs=queue_pairs,
        path_mtu=path_mtu,
        is_bidirectional=is_bidirectional,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerTask:
    """A test and its peer: exactly one of `server` and `client` is set.

    Attributes:
        test: what to run.
        server: host to connect to.
        client: the only host that may connect.
        port: TCP port of the exchange.
        address: RDMA address of this host; None: the one that the TCP connection uses.
        peer_address: RDMA address of the peer; None: the one that the TCP connection uses.
        options: of the software NIC.
        exchange_address: that a client connects from; None: the one that the system chooses.
        rdma_cm: connect the queue pairs with rdma_cm, as perftest does with -R; the exchange goes over one of them.
    """

    test: PeerTest
    server: str | None = None
    client: str = ""
    port: int = DEFAULT_PORT
    address: str | None = None
    peer_address: str | None = None
    options: RoceOptions
    exchange_address: str | None = None
    rdma_cm: bool = False

    @property
    def peer_command(self) -> str:
        """What the other end must run."""
        server = "THIS-HOST" if self.server is None else None
        return self.test.command(server, port=self.port, rdma_cm=self.rdma_cm)
