"""The exchange of perftest, without IO: both ends swap blocks of equal length, the client first.

Each part is a generator. It yields the block that this end sends, is sent the block of the peer, and returns what the
part agreed on. Whoever drives it (see agents/peer/conversation.py) sends before it receives at the client, and the
other way round at the server.

1. `greet`: versions, buffer sizes, path MTU. With rdma_cm, connections are made between two turns of `meet` here.
2. `introduce`: a record per queue pair. Then queue pairs are made.
3. `confirm`: hand-shakes, after which both ends are ready to receive. Then the test runs.
4. `conclude`: results and the end. It differs from test to test.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from emulator.errors import RemoteProtocolError
from emulator.flows.perftest.parameters import PeerTest, TestVerb
from emulator.flows.perftest.records import (
    OVER_TCP,
    BandwidthReport,
    QpRecord,
    RecordForm,
    decode_int,
    decode_path_mtu,
    decode_report,
    decode_version,
    encode_int,
    encode_path_mtu,
    encode_version,
)

CYCLE_BYTES = 4096
"""The buffer that small messages walk through: a page of this end; the larger one of both ends counts."""
CACHE_LINE_BYTES = 64


class Swap(NamedTuple):
    """A block to be sent, and how much the peer sends for it.

    Attributes:
        what: its name, for errors.
        block: what this end sends.
        answer_bytes: what the peer sends; None: as much.
    """

    what: str
    block: bytes
    answer_bytes: int | None = None

    @property
    def expected_bytes(self) -> int:
        """What the peer sends."""
        return len(self.block) if self.answer_bytes is None else self.answer_bytes


@dataclass(frozen=True, slots=True)
class Greeting:
    """What both ends know at first.

    Attributes:
        version: of the peer's perftest.
        path_mtu: the smaller one of both ends, bytes.
        buffer_bytes: what a queue pair of the peer accesses at most.
    """

    version: str
    path_mtu: int
    buffer_bytes: int


GreetingPart: TypeAlias = Generator[Swap, bytes, Greeting]
Introduction: TypeAlias = Generator[Swap, bytes, list[QpRecord]]
Confirmation: TypeAlias = Generator[Swap, bytes, None]
Conclusion: TypeAlias = Generator[Swap, bytes, BandwidthReport | None]


def greet(test: PeerTest) -> GreetingPart:
    """Agree on the path MTU.

    Raises:
        RemoteProtocolError: the peer sent something else.
    """
    version = decode_version((yield Swap("its version", encode_version())))
    cycle = decode_int((yield Swap("its buffer size", encode_int(CYCLE_BYTES))))
    yield Swap("its cache line size", encode_int(CACHE_LINE_BYTES))
    path_mtu = decode_path_mtu((yield Swap("its path MTU", encode_path_mtu(test.path_mtu))))
    return Greeting(version, min(path_mtu, test.path_mtu), max(test.size_bytes, CYCLE_BYTES, cycle))


def meet(record: QpRecord, form: RecordForm) -> Confirmation:
    """Wait for each other; the record says nothing."""
    yield from _hand_shakes([record], form)


def introduce(test: PeerTest, records: Sequence[QpRecord], form: RecordForm = OVER_TCP) -> Introduction:
    """Learn the queue pairs of the peer.

    Args:
        test: what is to be run.
        records: queue pairs of this end.
        form: of records on the wire.

    Raises:
        RemoteProtocolError: the peer sent something else, or its addresses are of another family.
    """
    if test.verb in (TestVerb.WRITE_LATENCY, TestVerb.READ_LATENCY):
        yield from _hand_shakes(records[:1], form)
    peers = yield from _hand_shakes(records, form)
    if form is OVER_TCP:
        _check_addresses(records, peers)
    return peers


def confirm(test: PeerTest, records: Sequence[QpRecord], form: RecordForm = OVER_TCP) -> Confirmation:
    """Make sure that the peer is ready to receive; arguments and errors as for `introduce`."""
    first = records[:1]
    is_send = test.verb.operation == "send"
    if is_send:
        yield from _hand_shakes(first, form)
    yield from _hand_shakes(records, form)
    yield from _hand_shakes(first, form)
    if test.is_bidirectional and not is_send:
        yield from _hand_shakes(first, form)


def conclude(
    test: PeerTest, records: Sequence[QpRecord], report: BandwidthReport, form: RecordForm = OVER_TCP
) -> Conclusion:
    """End the test; the server waits for the client here.

    Args:
        test, records, form: as for `introduce`.
        report: results of this end.

    Returns:
        The results of the peer; None where the test does not exchange any.

    Raises:
        RemoteProtocolError: the peer sent something else.
    """
    first = records[:1]
    if test.verb is TestVerb.WRITE_LATENCY:
        return None
    theirs = None
    if exchanges_reports(test):
        if not test.is_bidirectional:
            yield from _hand_shakes(first, form)
        blocks = []
        for block in report.encode():
            answer = yield Swap("its results", block)
            blocks.append(answer)
        theirs = decode_report(blocks)
    yield from _hand_shakes(first, form)
    if form.farewell:
        yield Swap("its farewell", form.farewell, answer_bytes=0)
    return theirs


def exchanges_reports(test: PeerTest) -> bool:
    """Whether both ends send their results."""
    if test.verb is TestVerb.SEND:
        return test.is_bidirectional and not test.duration_s
    return not test.verb.is_latency


def _hand_shakes(records: Sequence[QpRecord], form: RecordForm) -> Generator[Swap, bytes, list[QpRecord]]:
    peers = []
    for number, record in enumerate(records, start=1):
        what = f"its queue pair {number} of {len(records)}"
        peers.append(form.decode((yield Swap(what, form.encode(record)))))
    return peers


def _check_addresses(records: Sequence[QpRecord], peers: Sequence[QpRecord]) -> None:
    for ours, theirs in zip(records, peers, strict=True):
        if (":" in ours.host) != (":" in theirs.host):
            raise RemoteProtocolError(
                f"the peer's queue pair has the address {theirs.host}, ours has {ours.host}: both must be IPv4 or both "
                "IPv6; give its tool another --gid-index, or give --address here"
            )
