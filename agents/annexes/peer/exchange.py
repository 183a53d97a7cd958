"""The exchange of perftest, without IO: both ends swap blocks of equal length, the client first.

Each part is a generator. It yields the block that this end sends, is sent the block of the peer, and returns what the
part agreed on. Whoever drives it (see conversation.py) sends before it receives at the client, and
the other way round at the server.

  1. `greet`: versions, buffer sizes, path MTU. With rdma_cm, connections are made between two turns of `meet` here.
  2. `introduce`: a record per queue pair. Then queue pairs are made.
  3. `confirm`: hand-shakes, after which both ends are ready to receive. Then the test runs.
  4. `conclude`: results and the end. It differs from test to test.

Blocks hold a version, integers, path MTU, queue pairs or results.

Source: observed on the wire, and perftest 4.5 to 26.01, src/perftest_communication.c.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from emulator.errors import RemoteProtocolError
from emulator.flows.perftest_parameters import PeerTest, TestVerb
from emulator.flows.perftest_results import BandwidthReport
from emulator.roce.connection.qp_facts import address_of_gid, gid_of
from emulator.roce.constants import PATH_MTUS

VERSION = "6.06"
"""What this end announces. From 6.28 on, both ends would also exchange a struct whose layout depends on their ABI."""
OLDEST_VERSION = 5.70
"""Older versions are refused by perftest itself."""

VERSION_BYTES = 16
RECORD_BYTES = 108
FAREWELL = b"done\0"

_BINARY = struct.Struct(">iiiiI4xQ16sIi")
"""LID, outstanding READs, QPN, PSN, rkey, address, GID, SRQN, GID index."""
_INT = struct.Struct(">i")
_UNSIGNED = struct.Struct(">Q")
_DOUBLE = struct.Struct(">d")
_SMALLEST_MTU_CODE = 1  # 256 bytes, and twice as many for each next one (enum ibv_mtu)
_FIELDS = (("LID", 4), ("outstanding READs", 4), ("QPN", 6), ("PSN", 6), ("rkey", 8), ("address", 16))
_RECORD = re.compile(
    (":".join(f"([0-9a-f]{{{width},}})" for _, width in _FIELDS) + ":((?:[0-9a-f]{2}:){16})[0-9a-f]{8}:\0*").encode()
)


def encode_version(version: str = VERSION) -> bytes:
    """A version, padded with zeros."""
    return version.encode().ljust(VERSION_BYTES, b"\0")


def decode_version(data: bytes) -> str:
    """The version of the peer.

    Raises:
        RemoteProtocolError: not a version, or one that is too old.
    """
    text = data.partition(b"\0")[0]
    if not re.fullmatch(rb"\d+\.\d+[\w.-]*", text):
        raise RemoteProtocolError(f"the peer sent {data!r} where perftest sends its version: is it perftest?")
    number = re.match(rb"\d+\.\d+", text)
    assert number is not None
    if float(number[0]) < OLDEST_VERSION:
        raise RemoteProtocolError(
            f"the peer runs version {text.decode()} of perftest's exchange: {OLDEST_VERSION:.2f} or newer is needed"
        )
    return text.decode()


def encode_int(value: int) -> bytes:
    """A small number."""
    return _INT.pack(value)


def decode_int(data: bytes) -> int:
    """A small number."""
    value: int = _INT.unpack(data)[0]
    return value


def encode_path_mtu(path_mtu: int) -> bytes:
    """A path MTU as the code of verbs, in text."""
    return b"%d\0" % (PATH_MTUS.index(path_mtu) + _SMALLEST_MTU_CODE)


def decode_path_mtu(data: bytes) -> int:
    """The path MTU of the peer, bytes.

    Raises:
        RemoteProtocolError: not the code of a path MTU.
    """
    text = data.partition(b"\0")[0]
    place = int(text) - _SMALLEST_MTU_CODE if text.isdigit() else -1
    if not 0 <= place < len(PATH_MTUS):
        raise RemoteProtocolError(f"the peer sent {data!r} where perftest sends its path MTU: 1 to 5 is expected")
    return PATH_MTUS[place]


@dataclass(frozen=True, slots=True, kw_only=True)
class QpRecord:
    """A queue pair as one end describes it to the other.

    Attributes:
        qpn: its number.
        psn: PSN of the first packet that it sends.
        rkey, address: key and start of the buffer that the other end may access.
        host: its IP address.
        outstanding_reads: READs that it answers at once.
    """

    qpn: int
    psn: int
    rkey: int
    address: int
    host: str
    outstanding_reads: int = 1

    def encode(self) -> bytes:
        """The record on the wire: text of a fixed length."""
        numbers = (0, self.outstanding_reads, self.qpn, self.psn, self.rkey, self.address)
        fields = [f"{value:0{width}x}" for value, (_, width) in zip(numbers, _FIELDS, strict=True)]
        gid = [f"{byte:02x}" for byte in gid_of(self.host)]
        return (":".join([*fields, *gid, f"{0:08x}"]) + ":\0").encode()

    def encode_binary(self) -> bytes:
        """The record as it is sent over a queue pair."""
        numbers = (0, self.outstanding_reads, self.qpn, self.psn, self.rkey, self.address)
        return _BINARY.pack(*numbers, gid_of(self.host), 0, 0)


def decode_record(data: bytes) -> QpRecord:
    """A queue pair of the peer.

    Raises:
        RemoteProtocolError: not a record.
    """
    match = _RECORD.fullmatch(data)
    if match is None:
        raise RemoteProtocolError(
            f"the peer sent {data!r} where perftest describes a queue pair: "
            "do both ends run the same test with the same options, rdma_cm (-R) included?"
        )
    _, reads, qpn, psn, rkey, address = (int(text, 16) for text in match.groups()[:6])
    host = address_of_gid(bytes.fromhex(match[7].replace(b":", b"").decode()))
    if qpn >> 24 or psn >> 24 or rkey >> 32 or address >> 64:
        raise RemoteProtocolError(f"the peer sent {data!r}: a number of its queue pair has too many digits")
    return QpRecord(qpn=qpn, psn=psn, rkey=rkey, address=address, host=host, outstanding_reads=reads)


def decode_binary_record(data: bytes) -> QpRecord:
    """A queue pair of the peer, from the bytes of QpRecord.encode_binary; peers do not always know their address."""
    _, reads, qpn, psn, rkey, address, _, _, _ = _BINARY.unpack(data)
    return QpRecord(qpn=qpn, psn=psn, rkey=rkey, address=address, host="", outstanding_reads=reads)


@dataclass(frozen=True, slots=True)
class RecordForm:
    """How records stand on the wire, and what ends the exchange there."""

    encode: Callable[[QpRecord], bytes]
    decode: Callable[[bytes], QpRecord]
    farewell: bytes = b""


OVER_TCP = RecordForm(QpRecord.encode, decode_record, FAREWELL)
OVER_RDMA = RecordForm(QpRecord.encode_binary, decode_binary_record)


def encode_report(report: BandwidthReport) -> list[bytes]:
    """The blocks on the wire."""
    counts = [_UNSIGNED.pack(report.size_bytes), _UNSIGNED.pack(report.iterations)]
    return [*counts, *(_DOUBLE.pack(value) for value in (report.peak, report.average, report.messages_per_us))]


def decode_report(blocks: list[bytes]) -> BandwidthReport:
    """The results of the peer, from the blocks of `encode_report`."""
    size, iterations = (_UNSIGNED.unpack(block)[0] for block in blocks[:2])
    peak, average, rate = (_DOUBLE.unpack(block)[0] for block in blocks[2:])
    return BandwidthReport(size_bytes=size, iterations=iterations, peak=peak, average=average, messages_per_us=rate)


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
        for block in encode_report(report):
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
