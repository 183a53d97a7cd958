"""Disaggregated inference as a workload: which workers serve a request, and the nodes of every rank.

Arrivals are open-loop. The CPU of a rank waits from one arrival to the next, whatever the network does; a prefill
starts at its arrival, once the device is free, and the receives of a request are posted at its arrival.
"""

from __future__ import annotations

import heapq
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from emulator.annexes.workloads.inference import Inference, PrefixCache, Request
from emulator.annexes.workloads.totals import GroupRole, SyntheticWorkload
from emulator.trace.meaning.model import CommKind
from emulator.trace.meaning.names import key_value_name
from emulator.trace.synthetic.synthetic import Emission, NodeChain, WorkNode


@dataclass(frozen=True, slots=True)
class Served:
    """A request and who serves it.

    Attributes:
        prefill, decode: numbers of the workers in their pools.
        prefill_micros: how long the prefill worker computes.
        sent_tokens: tokens whose cache the decode worker does not have yet.
    """

    number: int
    at_micros: int
    prefill: int
    decode: int
    prefill_micros: int
    sent_tokens: int


@dataclass(frozen=True, slots=True)
class Share:
    """What a rank of a prefill worker sends to a rank of a decode worker, in bytes of a token."""

    sender: int
    receiver: int
    token_bytes: int


def serve(job: Inference, requests: Iterable[Request]) -> list[Served]:
    """Give each request, in the order of arrival, to the workers with the fewest tokens so far."""
    prefill, decode = _Pool(job, job.prefill), _Pool(job, job.decode)
    served = []
    for number, request in enumerate(requests):
        first, cached = prefill.take(request, request.input_length)
        second, known = decode.take(request, request.input_length + request.output_length)
        # A prompt whose blocks are all cached still needs its last token computed: the first answer follows from it.
        tokens = max(1, request.input_length - cached)
        micros = job.prefill_micros(tokens=tokens, cached=request.input_length - tokens)
        served.append(Served(number, request.at_micros, first, second, micros, request.input_length - known))
    return served


def shares(job: Inference) -> list[Share]:
    """How the cache of a token is spread: keys and values by head, as tensor parallelism spreads them.

    A decode rank needs the heads it works on; where tensor parallelism exceeds the heads, several ranks hold the same
    head, and each decode rank gets a copy of its own. The latent cache of DeepSeek counts as one head.
    """
    heads, value_bytes = job.shape.kv_heads, job.shape.head_bytes(job.kv_value_bytes)
    found: Counter[tuple[int, int]] = Counter()
    for receiver in range(job.decode_tensor):
        for head in _heads(receiver, ranks=job.decode_tensor, heads=heads):
            holders = [
                rank
                for rank in range(job.prefill_tensor)
                if head in _heads(rank, ranks=job.prefill_tensor, heads=heads)
            ]
            found[holders[receiver % len(holders)], receiver] += value_bytes
    return [Share(sender, receiver, size) for (sender, receiver), size in sorted(found.items())]


def _heads(rank: int, *, ranks: int, heads: int) -> range:
    """Heads of keys and values that a rank of a worker holds."""
    if ranks >= heads:
        return range(rank * heads // ranks, rank * heads // ranks + 1)
    return range(rank * heads // ranks, (rank + 1) * heads // ranks)


class _Pool:
    """Workers by their load, and what they remember."""

    def __init__(self, job: Inference, workers: int) -> None:
        self._load = [(0, worker) for worker in range(workers)]
        self._block_tokens = job.block_tokens
        self._caches: Sequence[BlockCache] = ()
        if job.prefix_cache is PrefixCache.POOL:
            self._caches = [BlockCache(job.cache_blocks)] * workers
        elif job.prefix_cache is PrefixCache.WORKER:
            self._caches = [BlockCache(job.cache_blocks) for _ in range(workers)]

    def take(self, request: Request, tokens: int) -> tuple[int, int]:
        """(worker, tokens of the prompt that it remembers); the worker has `tokens` more from now on."""
        load, worker = self._load[0]
        heapq.heapreplace(self._load, (load + tokens, worker))
        hits = self._caches[worker].look_up(request.blocks) if self._caches else 0
        return worker, min(hits * self._block_tokens, request.input_length)


class BlockCache:
    """Blocks in the order of their last use; past its capacity, the least recently used go first.

    Args:
        capacity: blocks; None: without limit.
    """

    def __init__(self, capacity: int | None = None) -> None:
        self._capacity = capacity
        self._blocks: OrderedDict[int, None] = OrderedDict()

    def look_up(self, blocks: Sequence[int]) -> int:
        """How many of the first blocks are remembered without a gap; all of them are remembered afterwards.

        A key-value cache can be reused up to the first block that differs: every later one depends on it.
        """
        hits = next((index for index, block in enumerate(blocks) if block not in self._blocks), len(blocks))
        for block in reversed(blocks):  # the first blocks, which most prompts share, are the last to go
            self._blocks[block] = None
            self._blocks.move_to_end(block)
        while self._capacity is not None and len(self._blocks) > self._capacity:
            self._blocks.popitem(last=False)
        return hits


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
