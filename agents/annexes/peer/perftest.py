"""A test with the perftest of a peer, as a flow beside the ranks of an agent."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator, Sequence

from agents.annexes.peer.session import PeerSession
from emulator.control.flows import FlowDirection, FlowFigures, FlowObserver, FlowTask
from emulator.flows.perftest_parameters import PeerTask
from emulator.flows.perftest_results import PeerResult
from emulator.schema import decode
from emulator.units import NS_PER_S


class PerftestActor:
    """One end of a perftest. Implements FlowActor."""

    def __init__(self, task: PeerTask, device: str | None) -> None:
        self._task, self._session = task, PeerSession(task, device=device)

    @property
    def waiting_for(self) -> str:
        """See FlowActor."""
        test, port, rdma_cm = self._task.test, self._task.port, self._task.rdma_cm
        if not self._session.has_met and self._task.server is None:
            command = test.command(self._task.address, port=port, rdma_cm=rdma_cm)
            return f"{self._task.client} to run {command}"
        return f"{self._task.server or self._task.client} to end its {test.verb.tool}"

    @property
    def addresses(self) -> Sequence[str]:
        """See FlowActor."""
        task = self._task
        known = (task.server, task.client, task.address, task.peer_address, task.exchange_address)
        return [address for address in known if address]

    async def prepare(self) -> None:
        """See FlowActor."""
        await self._session.meet()

    async def play(self, at_ns: int) -> None:
        """See FlowActor."""
        await asyncio.sleep(max(0, at_ns - time.monotonic_ns()) / NS_PER_S)
        await self._session.play()

    def end(self) -> None:
        """See FlowActor."""
        if self._task.test.is_open_ended:
            self._session.end()

    def figures(self) -> Sequence[FlowFigures]:
        """See FlowActor."""
        return list(figures_of(self._session.result())) if self._session.has_met else []

    def close(self) -> None:
        """See FlowActor."""
        self._session.close()


def make(task: FlowTask, device: str | None) -> PerftestActor:
    """The actor of a flow whose document is a PeerTask."""
    return PerftestActor(decode(json.loads(task.document), PeerTask), device)


def figures_of(result: PeerResult) -> Iterator[FlowFigures]:
    """Both directions of this end, and what the peer reports."""
    sent, received, peer, latency = result.sent, result.received, result.peer, result.latency
    is_read = result.test.verb.operation == "read"
    if sent.packets or sent.messages:
        yield FlowFigures(
            direction=FlowDirection.READ if is_read else FlowDirection.SENT,
            observer=FlowObserver.CHARKHA,
            messages=sent.messages,
            bytes=sent.bytes,
            start_ns=sent.start_ns or None,
            duration_ns=sent.duration_ns or None,
            bytes_per_s=sent.bytes_per_s,
            packets=sent.packets,
            retransmits=sent.retransmits,
            timeouts=sent.timeouts,
            naks=sent.naks,
            rnr_naks=sent.rnr_naks,
            latency_median_ns=None if latency is None else latency.median,
            latency_p99_ns=None if latency is None else latency.p99,
        )
    if received.messages:
        yield FlowFigures(
            direction=FlowDirection.SERVED if is_read else FlowDirection.RECEIVED,
            observer=FlowObserver.CHARKHA,
            messages=received.messages,
            bytes=received.bytes,
            start_ns=received.start_ns or None,
            duration_ns=received.duration_ns or None,
            bytes_per_s=received.bytes_per_s,
            naks=received.naks,
            duplicates=received.duplicates,
        )
    if peer is not None and peer.iterations:
        yield FlowFigures(
            direction=FlowDirection.SERVED if is_read else FlowDirection.RECEIVED,
            observer=FlowObserver.PEER,
            messages=peer.iterations,
            bytes=peer.iterations * peer.size_bytes,
            bytes_per_s=peer.bytes_per_s,
        )
