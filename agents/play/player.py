"""Plays one rank: nodes become ready, occupy the CPU, the device or the network, complete, and make others ready.

No IO of its own: a clock wakes the player, an endpoint carries its transfers, an observer receives what completed.
Compute follows an exact schedule (see compute.py). A communication's times are those of its post and its last event.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final, Protocol

from agents.play import tags
from agents.play.chain import ChainKeeper, RankChain
from agents.play.compute import ComputeResource, Usage
from agents.play.execution import Execution, Poster, StepObserver
from agents.play.window import Window, WindowNode
from agents.transports.base import Endpoint
from emulator.control.observations import Completion, RankSummary
from emulator.errors import LocalProtocolError
from emulator.host.clock import Clock
from emulator.host.core_wait import CoreWait
from emulator.host.delays import NewestDelays
from emulator.planner.algorithms import schedule
from emulator.planner.rank_program import Chunk, PlannedCommunication, PlaySettings
from emulator.planner.schedule import Collective
from emulator.trace.meaning.model import CommKind, Resource

IDLE_REPORT_NS: Final = 2_000_000
"""An idle rank reports the room in its window after this time even if the batch is not full: others may wait for it."""

_NEVER: Final = 1 << 63
_SPANS_PER_REPORT: Final = 256
_SENDING: Final = (CommKind.SEND, CommKind.STORAGE_WRITE)
_NONE: Final = int(Resource.NONE)
_CPU: Final = int(Resource.CPU)
_NETWORK: Final = int(Resource.NETWORK)


class PlayObserver(Protocol):
    """Receives what a player did."""

    def completed(self, completion: Completion) -> None:
        """A communication node is done."""
        ...

    def retired(self, rank: int, nodes: int) -> None:
        """`nodes` more nodes are complete: the window has room for as many."""
        ...

    def iteration_done(self, iteration: int, summary: RankSummary) -> None:
        """Every node of the rank is complete."""
        ...

    def computed(self, rank: int, iteration: int, spans: Sequence[tuple[int, int]]) -> None:
        """The device was busy in these spans (start, end) in ns; spans are reported in order of time."""
        ...

    def failed(self, rank: int, peer: int, reason: str) -> None:
        """The rank cannot continue: it cannot reach `peer`."""
        ...


class PendingCommunication:
    """A communication in progress: when it was posted, and the execution of a collective."""

    __slots__ = ("bytes_received", "bytes_sent", "chain", "execution", "node", "post_ns", "stamp_ns", "waited_ns")

    def __init__(
        self,
        node: WindowNode,
        post_ns: int,
        waited_ns: int,
        execution: Execution | None = None,
        chain: RankChain | None = None,
    ) -> None:
        self.node, self.post_ns, self.waited_ns, self.execution = node, post_ns, waited_ns, execution
        self.chain = chain
        self.bytes_sent = self.bytes_received = self.stamp_ns = 0

    def observed(self, stamp_ns: int) -> None:
        """Something was received for it; the kernel's time stamp of that, 0 if it has none."""
        self.stamp_ns = stamp_ns and max(stamp_ns, self.stamp_ns)


class RankPlayer:
    """Plays one rank. Implements EndpointEvents.

    Args:
        endpoint: carries the transfers.
        clock: wakes the player.
        observer: receives what completed.
        settings: of the run; the same for all ranks.
        nodes: length of the rank's program.
        is_resident: the program is delivered once, as a whole, before the first iteration; `rewind` does so again.
        retire_batch: complete nodes that are reported at once.
        lateness: collects how late communications are posted.
        core_wait: tells how long this process has been ready to run without a core.
        chains: takes what was sent and received by time stamps of the kernel; None: nobody asks.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        clock: Clock,
        observer: PlayObserver,
        *,
        settings: PlaySettings,
        nodes: int,
        is_resident: bool = False,
        retire_batch: int = 1,
        lateness: NewestDelays | None = None,
        core_wait: CoreWait | None = None,
        chains: ChainKeeper | None = None,
    ) -> None:
        self._chains = chains
        self.rank = endpoint.rank
        self._endpoint, self._clock, self._observer, self._settings = endpoint, clock, observer, settings
        self._nodes = nodes
        self._retire_batch = retire_batch
        self._lateness = lateness or NewestDelays()  # of communications against the schedule of what they depend on
        self._core_wait = core_wait or CoreWait(None)
        self._retired = 0
        self._window = Window(nodes, is_resident=is_resident)
        self._ready: deque[WindowNode] = deque()
        self._to_post: deque[WindowNode] = deque()
        self._cpu, self._device = ComputeResource(), ComputeResource()
        self._due_ns = _NEVER  # when the next node ends on the CPU or the device
        self._alarm_ns = 0
        self._is_report_due = False
        self._iteration: int | None = None
        self._epoch = -1  # iterations begun, warm-up included; the same on every rank
        self._start_ns = 0
        self._latest_ns = 0
        self._usage = Usage(0)
        self._group_queues: dict[int, deque[WindowNode]] = {}
        self._ready_collectives: set[int] = set()
        self._pending: dict[int, PendingCommunication] = {}  # by serial
        self._early_credits: dict[int, set[int]] = {}
        # Serial → (peer, lane, size, arrival, stamp of the kernel).
        self._early_payload: dict[int, list[tuple[int, int, int, int, int]]] = {}
        self._needs_flush = False

    # --- called by the agent ------------------------------------------------------------------------------------

    @property
    def is_computing(self) -> bool:
        """A node is running on the CPU or the device."""
        return self._cpu.running is not None or self._device.running is not None

    @property
    def is_playing(self) -> bool:
        """An iteration has begun and is not complete."""
        return self._iteration is not None

    @property
    def completed_nodes(self) -> int:
        """Nodes completed in this iteration that have not been reported as retired."""
        return self._window.completed - self._retired

    def prefetched(self, wanted: int) -> bool:
        """Whether the next iteration's first `wanted` nodes (or all, if fewer) have been delivered."""
        return self._window.delivered >= min(wanted, self._nodes)

    def deliver(self, chunk: Chunk) -> None:
        """Take the next positions of the program; before `begin` they wait for it.

        Raises:
            LocalProtocolError: the chunk does not continue the program, or is longer.
        """
        if chunk.first_position != self._window.delivered:
            expected = self._window.delivered
            raise LocalProtocolError(f"rank {self.rank} received position {chunk.first_position} instead of {expected}")
        if chunk.first_position + len(chunk.node_id) > self._nodes:
            raise LocalProtocolError(f"rank {self.rank} received more nodes than the {self._nodes} of its program")
        self._take(self._window.deliver(chunk))
        if self._iteration is not None:
            self._advance(self._clock.now())

    def rewind(self) -> None:
        """Go back to the beginning of a resident program, after an iteration; nothing for one that is streamed."""
        self._take(self._window.rewind())

    def _take(self, nodes: Iterable[WindowNode]) -> None:
        """New nodes of the window."""
        for node in nodes:
            communication = node.communication
            if communication is not None and communication.kind.is_collective:
                self._group_queues.setdefault(communication.group, deque()).append(node)
            if not node.waiting:
                node.ready_ns = max(node.ready_ns, self._start_ns)
                self._ready.append(node)

    def begin(self, iteration: int, at_ns: int) -> None:
        """Start the iteration when the clock reaches `at_ns`."""
        self._clock.call_at(at_ns, partial(self._begin, iteration))

    def waiting_on(self) -> str:
        """What the rank's oldest communication is waiting on, for messages; "" if no communication is in progress."""
        for pending in self._pending.values():
            communication = pending.node.communication
            assert communication is not None
            execution = pending.execution
            what = execution.waiting_on() if execution is not None else self._named(communication.peer)
            return f"rank {self.rank}: {communication.kind.label} (node {pending.node.node_id}) waits for {what}"
        return ""

    # --- reported by the endpoint -------------------------------------------------------------------------------

    def arrived(self, peer: int, tag: int, size: int, now: int, count: int = 1) -> None:
        """See EndpointEvents."""
        if self._due_ns <= now:  # compute that ended before now comes first
            self._advance(now)
        serial = tag & tags.SERIAL_MASK
        pending = self._pending.get(serial)
        stamp_ns = self._endpoint.stamp_ns
        arrival_ns = stamp_ns or now
        if pending is not None and (stamp_ns or pending.stamp_ns):
            pending.observed(stamp_ns)
        if tags.CREDIT <= tag < tags.PAIR:
            self._credit(peer, serial, pending, now)
            return
        received_ns = 0 if self._chains is None else self._endpoint.received_ns
        if pending is None:
            early = (peer, tags.split(tag)[1], size, arrival_ns, received_ns)
            self._early_payload.setdefault(serial, []).extend([early] * count)
        elif (execution := pending.execution) is None:
            self._received(serial, pending, size, arrival_ns=arrival_ns, now=now, received_ns=received_ns)
            self._advance(now)
        else:
            execution.arrived(peer, tag >> tags.LANE_SHIFT & tags.LANE_MASK, size, arrival_ns, count, received_ns)
            self._settle(serial, pending, execution, now)

    def acknowledged(self, peer: int, tag: int, now: int) -> None:
        """See EndpointEvents."""
        if self._due_ns <= now:
            self._advance(now)
        if tags.CREDIT <= tag < tags.PAIR:
            return
        serial = tag & tags.SERIAL_MASK
        pending = self._pending[serial]
        stamp_ns = self._endpoint.stamp_ns
        if stamp_ns or pending.stamp_ns:
            pending.observed(stamp_ns)
        execution = pending.execution
        if execution is None:
            self._complete_communication(serial, pending, now)
            self._advance(now)
        else:
            execution.acknowledged()
            if execution.is_done:
                self._settle(serial, pending, execution, now)

    def failed(self, peer: int, reason: str) -> None:
        """See EndpointEvents."""
        between = (
            f"rank {self.rank} and {self._named(peer)}" if self._is_storage(peer) else f"ranks {self.rank} and {peer}"
        )
        self._observer.failed(self.rank, peer, f"transfers between {between} failed: {reason}")

    def _is_storage(self, peer: int) -> bool:
        world = self._settings.groups[0] if self._settings.groups else ()
        return bool(world) and peer not in world

    def _named(self, peer: int) -> str:
        return f"storage endpoint {peer}" if self._is_storage(peer) else f"rank {peer}"

    # --- the iteration ------------------------------------------------------------------------------------------

    def _begin(self, iteration: int) -> None:
        now = self._clock.now()
        self._iteration = iteration
        self._epoch += 1
        self._start_ns = self._latest_ns = now
        self._usage = Usage(now)
        for node in self._ready:
            node.ready_ns = now
        self._cpu, self._device = ComputeResource(), ComputeResource()
        self._advance(now)

    def _finish(self) -> None:
        assert self._iteration is not None
        iteration, usage = self._iteration, self._usage
        self._iteration = None
        self._retire()
        self._retired = 0
        self._window.clear()
        self._observer.computed(self.rank, iteration, usage.take_spans())
        self._observer.iteration_done(
            iteration,
            RankSummary(
                rank=self.rank,
                start_ns=self._start_ns,
                end_ns=self._latest_ns,
                compute_ns=usage.compute_ns,
                communication_ns=usage.communication_ns,
                overlap_ns=usage.overlap_ns,
            ),
        )

    def _advance(self, now: int) -> None:
        """Do everything that is due by `now`, then set an alarm for the next node that ends."""
        if self._iteration is None:
            return
        next_to_end = self._compute(now)
        while self._to_post:
            while self._to_post:
                self._communicate(self._to_post.popleft(), now)
            next_to_end = self._compute(now)
        self._flush()
        self._due_ns = _NEVER if next_to_end is None else next_to_end.ends_ns
        if self._window.completed == self._nodes:
            self._finish()
        elif next_to_end is not None:
            self._set_alarm(self._due_ns, now)
        elif self._window.delivered < self._nodes and self._window.completed > self._retired:
            self._report_room_soon(now)

    def _dispatch(self, node: WindowNode) -> None:
        if node.resource == _NETWORK:
            self._to_post.append(node)
        elif node.resource == _NONE:
            self._complete(node, node.ready_ns)
        else:
            resource = self._cpu if node.resource == _CPU else self._device
            resource.enqueue(node)

    def _complete(self, node: WindowNode, now: int) -> None:
        if now > self._latest_ns:
            self._latest_ns = now
        self._ready.extend(self._window.complete(node, now))
        if self._window.completed - self._retired >= self._retire_batch:
            self._retire()

    def _retire(self) -> None:
        completed = self._window.completed
        if completed > self._retired:
            self._observer.retired(self.rank, completed - self._retired)
            self._retired = completed

    def _report_room_soon(self, now: int) -> None:
        if not self._is_report_due:
            self._is_report_due = True
            self._clock.call_at(now + IDLE_REPORT_NS, self._report_room)

    def _report_room(self) -> None:
        self._is_report_due = False
        self._retire()

    # --- compute ------------------------------------------------------------------------------------------------

    def _compute(self, now: int) -> ComputeResource | None:
        """Begin and end compute nodes on schedule up to `now`; returns the resource whose node ends next, if any.

        Communications that become ready go to `_to_post`: they are posted at `now`, not earlier, so the observer
        receives everything in the order of time.
        """
        while True:
            while self._ready:
                self._dispatch(self._ready.popleft())
            if self._cpu.running is None:
                self._cpu.begin_next()
            if self._device.running is None:
                self._begin_on_device()
            resource = self._next_to_end()
            if resource is None or resource.ends_ns > now:
                return resource
            self._end_compute(resource.ends_ns)

    def _next_to_end(self) -> ComputeResource | None:
        cpu, device = self._cpu, self._device
        if cpu.running is None:
            return device if device.running is not None else None
        return device if device.running is not None and device.ends_ns < cpu.ends_ns else cpu

    def _begin_on_device(self) -> None:
        begin_ns = self._device.begin_next()
        if begin_ns is not None:
            self._usage.device_begins(begin_ns)

    def _end_compute(self, now: int) -> None:
        """End the nodes that end at `now`, on both resources, before their dependents begin."""
        for resource in (self._cpu, self._device):
            if resource.running is not None and resource.ends_ns == now:
                node = resource.end()
                if resource is self._device:
                    self._usage.device_ends(now, node.duration_ns)
                    if self._usage.spans > _SPANS_PER_REPORT:
                        self._report_spans()
                self._complete(node, now)

    def _report_spans(self) -> None:
        assert self._iteration is not None
        *closed, last = self._usage.take_spans()
        self._usage.resume_span(last)
        self._observer.computed(self.rank, self._iteration, closed)

    def _set_alarm(self, when_ns: int, now: int) -> None:
        if now < self._alarm_ns <= when_ns:
            return
        self._alarm_ns = when_ns
        self._clock.call_at(when_ns, self._wake)

    def _wake(self) -> None:
        self._advance(self._clock.now())

    # --- communication ------------------------------------------------------------------------------------------

    def _communicate(self, node: WindowNode, now: int) -> None:
        communication = node.communication
        assert communication is not None
        self._lateness.note(now - node.ready_ns)
        if communication.kind.is_collective:
            self._ready_collectives.add(node.position)
            self._post_next(communication.group, now)
        elif communication.kind in _SENDING:
            self._send(node, communication, now)
        else:
            self._receive(node, communication, now)

    def _post_next(self, group: int, now: int) -> None:
        """Post the group's next collective if it is ready and the one before it is done."""
        queue = self._group_queues[group]
        while queue and queue[0].position in self._ready_collectives:
            node = queue[0]
            self._ready_collectives.remove(node.position)
            self._post_collective(node, now)

    def _post_collective(self, node: WindowNode, now: int) -> None:
        communication = node.communication
        assert communication is not None
        serial = self._serial(communication)
        ranks = self._settings.groups[communication.group]
        algorithm = self._settings.algorithms[communication.algorithm]
        chain = None
        if self._chains is not None and self._chains.wants(communication.group, serial):
            chain = self._chain(now)
        poster, observer = self._carried(serial)
        execution = Execution(
            poster,
            schedule(algorithm, self._as_member(communication, ranks)),
            serial=serial,
            ranks=ranks,
            credited=self._early_credits.pop(serial, set()) if self._settings.credits else None,
            chain=chain,
            observer=observer,
        )
        pending = PendingCommunication(node, now, self._core_wait.until(now), execution, chain)
        self._pending[serial] = pending
        self._usage.communication(+1, now)
        execution.start()
        for peer, lane, size, arrival_ns, received_ns in self._early_payload.pop(serial, ()):
            execution.early = True
            execution.arrived(peer, lane, size, arrival_ns, 1, received_ns)
        self._needs_flush = True
        if execution.is_done:
            self._end_collective(serial, pending, execution, now)

    def _carried(self, serial: int) -> tuple[Poster, StepObserver | None]:
        """What carries the transfers of a collective, and what learns of its steps."""
        return self._endpoint, None

    def _chain(self, now: int) -> RankChain:
        """For a communication that is posted now."""
        end = self._endpoint
        return RankChain(now, end.stalled_ns, end.clock_steps, end.lead_bytes)

    def _pair_chain(self, communication: PlannedCommunication, now: int) -> RankChain | None:
        if self._chains is None or not self._chains.wants_pair(self.rank, communication.peer):
            return None
        return self._chain(now)

    def _settle(self, serial: int, pending: PendingCommunication, execution: Execution, now: int) -> None:
        """After an event: flush what it posted; if the collective is done, post the next one of its group."""
        if not execution.is_done:
            if execution.has_posted:
                execution.has_posted = False
                self._endpoint.flush()
            return
        self._end_collective(serial, pending, execution, now)
        communication = pending.node.communication
        assert communication is not None
        self._post_next(communication.group, now)
        self._advance(now)

    def _end_collective(self, serial: int, pending: PendingCommunication, execution: Execution, now: int) -> None:
        communication = pending.node.communication
        assert communication is not None
        pending.bytes_sent, pending.bytes_received = execution.bytes_sent, execution.bytes_received
        self._group_queues[communication.group].popleft()
        self._complete_communication(serial, pending, now, arrival_ns=execution.arrival_ns, early=execution.early)

    def _credit(self, peer: int, serial: int, pending: PendingCommunication | None, now: int) -> None:
        if pending is None or pending.execution is None:
            self._early_credits.setdefault(serial, set()).add(peer)
        else:
            pending.execution.credit(peer)
            self._settle(serial, pending, pending.execution, now)

    def _send(self, node: WindowNode, communication: PlannedCommunication, now: int) -> None:
        serial = self._serial(communication)
        chain = self._pair_chain(communication, now)
        pending = self._pending[serial] = PendingCommunication(node, now, self._core_wait.until(now), chain=chain)
        self._usage.communication(+1, now)
        pending.bytes_sent = communication.size_bytes
        if communication.size_bytes:
            self._needs_flush = True
            sent = None if chain is None else chain.sends(communication.peer, 0)
            self._endpoint.post(communication.peer, tags.pair_tag(serial), communication.size_bytes, sent)
        else:
            self._complete_communication(serial, pending, now)

    def _receive(self, node: WindowNode, communication: PlannedCommunication, now: int) -> None:
        serial = self._serial(communication)
        chain = self._pair_chain(communication, now)
        pending = self._pending[serial] = PendingCommunication(node, now, self._core_wait.until(now), chain=chain)
        self._usage.communication(+1, now)
        if not communication.size_bytes:
            self._complete_communication(serial, pending, now)
        elif communication.kind == CommKind.STORAGE_READ:
            self._needs_flush = True
            self._endpoint.post(communication.peer, tags.credit_tag(serial), 0)
        for _, _, size, arrival_ns, received_ns in self._early_payload.pop(serial, ()):
            self._received(serial, pending, size, arrival_ns=arrival_ns, now=now, received_ns=received_ns)

    def _received(
        self, serial: int, pending: PendingCommunication, size: int, *, arrival_ns: int, now: int, received_ns: int
    ) -> None:
        pending.bytes_received = size
        communication = pending.node.communication
        if pending.chain is not None and communication is not None:
            pending.chain.received(communication.peer, 0, received_ns, 1)
        self._complete_communication(serial, pending, now, arrival_ns=arrival_ns)

    def _complete_communication(
        self, serial: int, pending: PendingCommunication, now: int, *, arrival_ns: int = 0, early: bool = False
    ) -> None:
        assert self._iteration is not None
        now = max(now, pending.post_ns)  # an event may have been read from the network just before the post
        done_ns, read_delay_ns = now, -1
        if pending.stamp_ns:
            done_ns = min(now, max(pending.stamp_ns, arrival_ns, pending.post_ns))
            read_delay_ns = now - done_ns
        del self._pending[serial]
        if pending.chain is not None and self._chains is not None:
            self._chains.take(
                pending.chain,
                self._endpoint,
                iteration=self._iteration,
                instance=serial % self._settings.instances,
                rank=self.rank,
                node_id=pending.node.node_id,
            )
        self._usage.communication(-1, now)
        self._observer.completed(
            Completion(
                iteration=self._iteration,
                rank=self.rank,
                node_id=pending.node.node_id,
                post_ns=pending.post_ns,
                done_ns=done_ns,
                arrival_ns=min(arrival_ns, done_ns),
                bytes_sent=pending.bytes_sent,
                bytes_received=pending.bytes_received,
                early=early,
                read_delay_ns=read_delay_ns,
                core_wait_ns=-1 if pending.waited_ns < 0 else self._core_wait.until(now) - pending.waited_ns,
            )
        )
        self._complete(pending.node, now)

    def _as_member(self, communication: PlannedCommunication, ranks: Sequence[int]) -> Collective:
        return Collective(
            kind=communication.kind,
            members=len(ranks),
            member=ranks.index(self.rank),
            size_bytes=communication.size_bytes,
            root=ranks.index(communication.root) if communication.root >= 0 else 0,
            send_splits=communication.send_splits,
            recv_splits=communication.recv_splits,
            layout=self._settings.layouts.of(ranks),
        )

    def _serial(self, communication: PlannedCommunication) -> int:
        return self._epoch * self._settings.instances + communication.instance

    def _flush(self) -> None:
        if self._needs_flush:
            self._needs_flush = False
            self._endpoint.flush()
