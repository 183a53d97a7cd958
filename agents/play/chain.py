"""What one rank sent and received of a collective or pair, by the kernel's time stamps, and what each step waited for.

From the chains of all members the controller finds the messages that ended the collective, and how much of its time
they were in the network. A step waits for what the steps before it receive: of that, the last to come is its cause.

Memory is bounded: of large groups only every Nth instance has chains, and an agent holds at most MOST_HELD transfers
that the control stream has not taken; what does not fit is left out, and traffic never waits for it.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import Protocol

from emulator.control.observations import BEHIND, ChainRecords, MemberChain
from emulator.roce.connection.messages import FirstSent

_LANE_SHIFT = 32
TRANSFERS_PER_INSTANCE = 512
"""Transfers of an instance of which every one has a chain; of larger ones every Nth, so that there are as many."""
MOST_HELD, MOST_WAITING, BATCH_TRANSFERS = 1 << 16, 16, 1 << 12
"""Transfers that wait for the control stream; its messages before chains stay here; transfers in one message."""


class RankChain:
    """The transfers of one rank in one instance.

    Args:
        post_ns: when it was posted.
        stalled_ns, clock_steps, lead_bytes: of the endpoint at that time.
    """

    __slots__ = (
        "_cause", "_cause_ns", "_peers", "_rows", "_taken", "cause", "clock_steps", "lane", "lead_bytes", "post_ns",
        "receive_lane", "received_at", "receiver", "sender", "sent", "stalled_ns",
    )  # fmt: skip

    def __init__(self, post_ns: int, stalled_ns: int, clock_steps: int, lead_bytes: int = 0) -> None:
        self.post_ns, self.stalled_ns, self.clock_steps = post_ns, stalled_ns, clock_steps
        self.lead_bytes = lead_bytes
        self.receiver: list[int] = []
        self.lane: list[int] = []
        self.cause: list[int] = []  # 1 + index of what was received; 0: the post
        self.sent: list[FirstSent] = []
        self.sender: list[int] = []
        self.receive_lane: list[int] = []
        self.received_at: list[int] = []
        self._rows: dict[int, list[int]] = {}  # lane and sender → what was received
        self._taken: dict[int, int] = {}  # lane and sender → how many steps that have begun waited for
        self._peers: dict[int, list[int]] = {}  # lane → ranks that its present step receives from
        self._cause: dict[int, int] = {}  # lane → cause of its present step
        self._cause_ns: dict[int, int] = {}

    def begin(self, lane: int, peers: list[int]) -> None:
        """A step of a lane begins, which receives from these ranks: everything before it has arrived."""
        for peer in self._peers.get(lane, ()):
            line = lane << _LANE_SHIFT | peer
            taken = self._taken.get(line, 0)
            self._taken[line] = taken + 1
            row = self._rows[line][taken]
            at_ns = self.received_at[row]
            if at_ns >= self._cause_ns.get(lane, 0):
                self._cause_ns[lane] = at_ns
                self._cause[lane] = row + 1
        self._peers[lane] = peers

    def sends(self, peer: int, lane: int) -> FirstSent:
        """The present step of a lane sends to a rank; returns what learns when that leaves."""
        sent = FirstSent()
        self.receiver.append(peer)
        self.lane.append(lane)
        self.cause.append(self._cause.get(lane, 0))
        self.sent.append(sent)
        return sent

    def received(self, peer: int, lane: int, at_ns: int, count: int) -> None:
        """`count` transfers from a rank have arrived, the last of them when the kernel says."""
        rows = self._rows.setdefault(lane << _LANE_SHIFT | peer, [])
        for _ in range(count):
            rows.append(len(self.sender))
            self.sender.append(peer)
            self.receive_lane.append(lane)
            self.received_at.append(at_ns)


class Stamped(Protocol):
    """What a chain needs of an endpoint."""

    @property
    def stalled_ns(self) -> int:
        """See Endpoint."""
        ...

    @property
    def clock_steps(self) -> int:
        """See Endpoint."""
        ...

    @property
    def lead_bytes(self) -> int:
        """See Endpoint."""
        ...

    def usual_ns(self, since_ns: int, until_ns: int) -> int:
        """See Endpoint."""
        ...

    def collect(self) -> None:
        """See Endpoint."""
        ...


class _Done:
    """A chain that is complete, but for the stamps of what was sent."""

    __slots__ = ("chain", "endpoint", "instance", "is_behind", "iteration", "node_id", "rank", "stalled_ns")

    def __init__(
        self, chain: RankChain, endpoint: Stamped, *, iteration: int, instance: int, rank: int, node_id: int
    ) -> None:
        self.chain, self.endpoint, self.stalled_ns = chain, endpoint, endpoint.stalled_ns - chain.stalled_ns
        self.iteration, self.instance, self.rank, self.node_id = iteration, instance, rank, node_id
        self.is_behind = endpoint.lead_bytes < chain.lead_bytes

    def member(self) -> MemberChain:
        """What the controller gets. If the clock was set meanwhile, no stamp is to be trusted."""
        chain = self.chain
        is_sound = self.endpoint.clock_steps == chain.clock_steps
        port_ns = BEHIND if self.is_behind else 0
        if chain.received_at and not self.is_behind:
            port_ns = self.endpoint.usual_ns(chain.post_ns, max(chain.received_at))
        return MemberChain(
            self.iteration,
            self.instance,
            self.rank,
            self.node_id,
            chain.post_ns,
            self.stalled_ns,
            array("q", chain.receiver),
            array("q", chain.lane),
            array("q", chain.cause),
            array("q", [one.at_ns if is_sound else 0 for one in chain.sent]),
            array("q", chain.sender),
            array("q", chain.receive_lane),
            array("q", [at_ns if is_sound else 0 for at_ns in chain.received_at]),
            port_ns,
        )


class ChainKeeper:
    """The chains of all ranks of an agent.

    Args:
        hosts: host of each rank; ranks beyond have none.
        groups: world ranks by group index.
        send: queues a value for the controller.
        waiting: how many values are queued.
        most: transfers that it holds.
    """

    def __init__(
        self,
        hosts: Sequence[int],
        groups: Sequence[Sequence[int]],
        *,
        send: Callable[[ChainRecords], None],
        waiting: Callable[[], int],
        most: int = MOST_HELD,
    ) -> None:
        self._hosts, self._send, self._waiting, self._most = hosts, send, waiting, most
        self._every = [self._stride(ranks) for ranks in groups]
        self._done: list[_Done] = []
        self._held = 0

    def _stride(self, ranks: Sequence[int]) -> int:
        """Of a group: every how many instances have chains; 0: none, for it is in one host."""
        if len({self._hosts[rank] for rank in ranks if rank < len(self._hosts)}) < 2:
            return 0
        return max(1, 2 * len(ranks) * (len(ranks) - 1) // TRANSFERS_PER_INSTANCE)

    def wants(self, group: int, serial: int) -> bool:
        """Whether a collective of a group has chains; `serial` counts those of all iterations."""
        every = self._every[group]
        return bool(every) and serial % every == 0

    def wants_pair(self, rank: int, peer: int) -> bool:
        """Whether a transfer between two ranks has one."""
        hosts = self._hosts
        return rank < len(hosts) and peer < len(hosts) and hosts[rank] != hosts[peer]

    def take(
        self, chain: RankChain, endpoint: Stamped, *, iteration: int, instance: int, rank: int, node_id: int
    ) -> None:
        """An instance is done on a rank; warm-up is not kept."""
        size = len(chain.sent) + len(chain.sender)
        if iteration < 0 or self._held + size > self._most:
            return
        self._held += size
        self._done.append(_Done(chain, endpoint, iteration=iteration, instance=instance, rank=rank, node_id=node_id))

    def flush(self, *, is_over: bool = False) -> None:
        """Send what is complete, as far as the control stream keeps up; all of it if the run is over."""
        if self._done and (is_over or self._waiting() < MOST_WAITING):
            done, self._done, self._held = self._done, [], 0
            for endpoint in dict.fromkeys(one.endpoint for one in done):
                endpoint.collect()
            batch: list[MemberChain] = []
            size = 0
            for one in done:
                if batch and (one.iteration != batch[0].iteration or size >= BATCH_TRANSFERS):
                    self._send(ChainRecords(batch[0].iteration, batch))
                    batch, size = [], 0
                batch.append(one.member())
                size += len(one.chain.sent) + len(one.chain.sender)
            self._send(ChainRecords(batch[0].iteration, batch))
