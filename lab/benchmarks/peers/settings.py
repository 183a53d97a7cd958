"""The comparisons: what is measured in turns, and which reading is divided by which."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.benchmarks.peers.collectives import Gloo, OpenMpi, OwnAllReduce, PushPullRing, Shape
from lab.benchmarks.peers.flows import BLOCK_BYTES, HEADER_BYTES, BareBlast, Iperf3, PushPull, Timing, TransportFlow
from lab.benchmarks.peers.quantities import Quantity
from lab.benchmarks.peers.subjects import Subject

PATH_MTUS = (4096, 1024)
ROCE, ZMQ = "roce", "zmq"
OWN = (ROCE, ZMQ)
CONGESTION_CONTROL = ("congestion=dcqcn",)
SUMS = "Gloo and Open MPI also sum (float32); Charkha moves bytes and sums nothing"
ZMQ_IS_FOR = "zmq is for runs over TCP, where UDP is filtered or RoCE's behaviour does not matter: reliable, not fast"


@dataclass(frozen=True, slots=True)
class Setting:
    """Subjects measured in turns, a round at a time.

    Attributes:
        pairs: (ours, peer) by the subjects' names; no peer: the value stands for itself.
    """

    key: str
    title: str
    quantity: Quantity
    subjects: Sequence[Subject]
    pairs: Sequence[tuple[str, str | None]]
    remark: str = ""


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is measured; targets are those of the full scale."""

    timing: Timing
    large_bytes: int
    many_ranks: int
    iterations: int
    many_iterations: int
    is_full: bool


FULL = Scale(Timing(3, 1), large_bytes=64 << 20, many_ranks=256, iterations=20, many_iterations=5, is_full=True)
QUICK = Scale(Timing(1, 0.5), large_bytes=4 << 20, many_ranks=16, iterations=5, many_iterations=2, is_full=False)


def settings(scale: Scale, *, transports: Sequence[str], peers_python: Path) -> list[Setting]:
    """All comparisons of these transports; those of a transport that is not named are left out."""
    flows = [*(_packet_flow(scale, mtu) for mtu in PATH_MTUS if ROCE in transports)]
    flows += [_stream_flow(scale)] if ZMQ in transports else []
    return [
        *flows,
        _large(scale, transports, peers_python),
        _small(scale, transports, peers_python),
        _many(scale, transports),
    ]


def _packet_flow(scale: Scale, path_mtu: int) -> Setting:
    datagram = path_mtu + HEADER_BYTES
    own = TransportFlow(
        ROCE, scale.timing, own=(f"path_mtu={path_mtu}", *CONGESTION_CONTROL), transfer_bytes=BLOCK_BYTES
    )
    peers: list[Subject] = [Iperf3(scale.timing, datagram), BareBlast(datagram, scale.timing)]
    return Setting(
        key=f"flow-{path_mtu}",
        title=f"one flow, transfers of {BLOCK_BYTES >> 20} MiB, path MTU {path_mtu:,} B, "
        f"the peers' datagrams {datagram:,} B",
        quantity=Quantity.GOODPUT,
        subjects=[own, *peers],
        pairs=[(own.name, peer.name) for peer in peers],
        remark="ours is acknowledged payload, under DCQCN; the peers' rates contain header bytes, and loss stays",
    )


def _stream_flow(scale: Scale) -> Setting:
    own = TransportFlow(ZMQ, scale.timing)
    peers: list[Subject] = [Iperf3(scale.timing), PushPull(scale.timing)]
    return Setting(
        key="flow-tcp",
        title="one flow over TCP, messages of 1 MiB",
        quantity=Quantity.GOODPUT,
        subjects=[own, *peers],
        pairs=[(own.name, peer.name) for peer in peers],
        remark=ZMQ_IS_FOR,
    )


def _large(scale: Scale, transports: Sequence[str], python: Path) -> Setting:
    size, iterations = scale.large_bytes, max(3, scale.iterations // 2)
    shape = Shape(8, size, iterations=iterations, warmup=2, quantity=Quantity.BUS_BANDWIDTH)
    title = f"ring all-reduce, 8 ranks, {size >> 20} MiB"
    own = [OwnAllReduce(transport, shape, algorithm="ring") for transport in transports]
    peers: list[Subject] = [Gloo(python, shape), OpenMpi(python, shape)]
    return _all_reduce("all-reduce-large", title, own=own, peers=peers)


def _small(scale: Scale, transports: Sequence[str], python: Path) -> Setting:
    shape = Shape(8, 1024, iterations=scale.iterations, warmup=2, quantity=Quantity.TIME)
    own = [OwnAllReduce(transport, shape, credits=on) for transport in transports for on in (True, False)]
    peers: list[Subject] = [Gloo(python, shape), OpenMpi(python, shape)]
    return _all_reduce(
        "all-reduce-small", "all-reduce, 8 ranks, 1 KiB, everybody's own choice of algorithm", own=own, peers=peers
    )


def _many(scale: Scale, transports: Sequence[str]) -> Setting:
    ranks = scale.many_ranks
    shape = Shape(ranks, 1 << 20, iterations=scale.many_iterations, warmup=1, quantity=Quantity.MESSAGE_RATE)
    own = [
        OwnAllReduce(transport, shape, credits=on, algorithm="ring") for transport in transports for on in (True, False)
    ]
    title = f"ring all-reduce, {ranks} ranks, 1 MiB: {shape.ring_messages:,} messages"
    remark = "ZeroMQ checks, acknowledges and schedules nothing"
    return _all_reduce("all-reduce-many", title, own=own, peers=[PushPullRing(shape)], remark=remark)


def _all_reduce(
    key: str, title: str, *, own: Sequence[OwnAllReduce], peers: Sequence[Subject], remark: str = SUMS
) -> Setting:
    alone = [(subject.name, None) for subject in own if own[0].shape.quantity is not Quantity.BUS_BANDWIDTH]
    return Setting(
        key=key,
        title=title,
        quantity=own[0].shape.quantity,
        subjects=[*own, *peers],
        pairs=[*alone, *((subject.name, peer.name) for subject in own for peer in peers)],
        remark="; ".join([remark, *([ZMQ_IS_FOR] if any(subject.transport == ZMQ for subject in own) else [])]),
    )
