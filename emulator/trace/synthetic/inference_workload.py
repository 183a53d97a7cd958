"""Disaggregated inference as a workload: the nodes of every rank.

Arrivals are open-loop. The CPU of a rank waits from one arrival to the next, whatever the network does; a prefill
starts at its arrival, once the device is free, and the receives of a request are posted at its arrival.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from emulator.trace.meaning.key_value_names import key_value_name
from emulator.trace.meaning.model import CommKind
from emulator.trace.synthetic.inference import Inference
from emulator.trace.synthetic.inference_requests import Request
from emulator.trace.synthetic.inference_transfers import Served, Share, serve, shares
from emulator.trace.synthetic.node_chain import Emission, NodeChain
from emulator.trace.synthetic.synthetic import GroupRole, SyntheticWorkload, WorkNode


def inference_workload(job: Inference, requests: Iterable[Request]) -> SyntheticWorkload:
    """The requests, each served by a worker of either pool."""
    made = _Serving(job, serve(job, requests))
    return SyntheticWorkload(
        name="inference",
        ranks=job.ranks,
        groups={},
        nodes=made.nodes,
        parameters=job.described() | {"requests": len(made.served)},
        role=lambda rank, node: GroupRole.KEY_VALUE,
    )


class _Serving:
    """The requests by worker."""

    def __init__(self, job: Inference, served: Sequence[Served]) -> None:
        self.served = served
        self._job, self._shares = job, shares(job)
        self._prefill: Mapping[int, list[Served]] = defaultdict(list)
        self._decode: Mapping[int, list[Served]] = defaultdict(list)
        for one in served:
            self._prefill[one.prefill].append(one)
            self._decode[one.decode].append(one)

    def nodes(self, rank: int) -> Iterator[WorkNode]:
        first_decode = self._job.prefill * self._job.prefill_tensor
        if rank < first_decode:
            worker, member = divmod(rank, self._job.prefill_tensor)
            mine = [share for share in self._shares if share.sender == member]
            return _ServingRank().prefill(self._prefill.get(worker, []), mine, self._first_decode_rank)
        worker, member = divmod(rank - first_decode, self._job.decode_tensor)
        mine = [share for share in self._shares if share.receiver == member]
        return _ServingRank().decode(self._decode.get(worker, []), mine, self._first_prefill_rank)

    def _first_prefill_rank(self, one: Served) -> int:
        return one.prefill * self._job.prefill_tensor

    def _first_decode_rank(self, one: Served) -> int:
        return self._job.prefill * self._job.prefill_tensor + one.decode * self._job.decode_tensor


class _ServingRank(NodeChain):
    """State while the nodes of one rank are generated: the last arrival, and its node."""

    def __init__(self) -> None:
        super().__init__()
        self._clock_micros = 0
        self._clock = 0

    def prefill(
        self, requests: Iterable[Served], mine: Sequence[Share], first_rank: Callable[[Served], int]
    ) -> Iterator[WorkNode]:
        for one in requests:
            ready = yield from self._arrival(one)
            ready = yield from self.compute(f"request.{one.number}.prefill", one.prefill_micros, ready)
            for share in mine if one.sent_tokens else ():
                yield from self._transfer(CommKind.SEND, one, share, first_rank(one) + share.receiver, ready)

    def decode(
        self, requests: Iterable[Served], mine: Sequence[Share], first_rank: Callable[[Served], int]
    ) -> Iterator[WorkNode]:
        for one in requests:
            ready = yield from self._arrival(one)
            for share in mine if one.sent_tokens else ():
                yield from self._transfer(CommKind.RECV, one, share, first_rank(one) + share.sender, ready)

    def _arrival(self, one: Served) -> Emission:
        gap = one.at_micros - self._clock_micros
        if gap:
            name, self._clock_micros = f"request.{one.number}.arrival", one.at_micros
            self._clock = yield from self.append(name, self._clock, duration_micros=gap, on_cpu=True)
        return self._clock

    def _transfer(self, kind: CommKind, one: Served, share: Share, peer: int, ready: int) -> Emission:
        name = key_value_name(one.number, peer, is_send=kind is CommKind.SEND)
        size = one.sent_tokens * share.token_bytes
        return (yield from self.append(name, ready, kind=kind, size_bytes=size, peer=peer, tag=one.number))
