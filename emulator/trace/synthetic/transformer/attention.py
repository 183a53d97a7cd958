"""Attention on one rank; with context parallelism, ranks exchange keys and values of their tokens.

In a ring, a rank computes with the keys and values of one rank while those of the next are on their way; backward, they
go round again, and the gradients of them after them (Liu et al., Ring Attention, arXiv 2310.01889, in the order of
Transformer Engine). Or every rank gathers those of all, and the gradients are reduced and scattered.
"""

from __future__ import annotations

from emulator.trace.meaning.model import CommKind
from emulator.trace.synthetic.device import BACKWARD_TO_FORWARD
from emulator.trace.synthetic.node_chain import Emission
from emulator.trace.synthetic.synthetic import GroupRole
from emulator.trace.synthetic.transformer.rank import TransformerRank
from emulator.trace.synthetic.transformer.transformer import ContextExchange

VALUES_TAG, GRADIENTS_TAG = 0, 1
"""Tags of the ring; the peers of other messages are in other stages."""


class Attention:
    """Adds the nodes of attention to those of a rank."""

    def __init__(self, rank: TransformerRank) -> None:
        self._rank, self._ranks = rank, rank.model.context
        self._size_bytes = rank.model.key_value_bytes
        self._is_ring = rank.model.context_exchange is ContextExchange.RING
        self._next, self._before = (
            rank.layout.rank(rank.at._replace(context=(rank.at.context + distance) % self._ranks))
            for distance in (1, -1)
        )

    def forward(self, name: str, ready: int) -> Emission:
        """Queries, keys and values; scores; projection."""
        times = self._rank.times
        if self._ranks == 1:
            return (yield from self._rank.compute(name, times.attention, ready))
        ready = yield from self._rank.compute(f"{name}.queries", times.queries, ready)
        ready = yield from self._ring(name, ready) if self._is_ring else self._gathered(name, ready)
        return (yield from self._rank.compute(f"{name}.projection", times.projection, ready))

    def backward(self, name: str, ready: int) -> Emission:
        """The same in reverse; each part takes twice as long."""
        times = self._rank.times
        if self._ranks == 1:
            return (yield from self._rank.compute(name, times.attention * BACKWARD_TO_FORWARD, ready))
        ready = yield from self._rank.compute(f"{name}.projection", times.projection * BACKWARD_TO_FORWARD, ready)
        ready = yield from self._ring_backward(name, ready) if self._is_ring else self._gathered_backward(name, ready)
        return (yield from self._rank.compute(f"{name}.queries", times.queries * BACKWARD_TO_FORWARD, ready))

    def _ring(self, name: str, held: int) -> Emission:
        """`held`: after which node the keys and values are here that are computed with next."""
        ready = held
        for step in range(self._ranks):
            after = yield from self._pass_on(f"{name}.values.{step}", VALUES_TAG, held, step)
            ready = yield from self._rank.compute(f"{name}.scores.{step}", self._rank.times.scores, held)
            held = after
        return ready

    def _ring_backward(self, name: str, held: int) -> Emission:
        micros = self._rank.times.scores * BACKWARD_TO_FORWARD
        gradients = 0
        for step in range(self._ranks):
            after = yield from self._pass_on(f"{name}.values.{step}", VALUES_TAG, held, step)
            ready = yield from self._rank.compute(f"{name}.scores.{step}", micros, held)
            if step == self._ranks - 1:
                break
            yield from self._send(f"{name}.gradients.{step}", GRADIENTS_TAG, ready, gradients)
            gradients = yield from self._receive(f"{name}.gradients.{step}", GRADIENTS_TAG, ready)
            held = after
        return gradients  # and the device, which every compute node waits for

    def _gathered(self, name: str, ready: int) -> Emission:
        ready = yield from self._gather(f"{name}.values", ready)
        return (yield from self._rank.compute(f"{name}.scores", self._rank.times.scores * self._ranks, ready))

    def _gathered_backward(self, name: str, ready: int) -> Emission:
        ready = yield from self._gather(f"{name}.values", ready)
        micros = self._rank.times.scores * self._ranks * BACKWARD_TO_FORWARD
        ready = yield from self._rank.compute(f"{name}.scores", micros, ready)
        size_bytes, kind = self._size_bytes * self._ranks, CommKind.REDUCE_SCATTER
        return (yield from self._rank.collective(f"{name}.gradients", GroupRole.CONTEXT, kind, size_bytes, ready))

    def _gather(self, name: str, ready: int) -> Emission:
        kind = CommKind.ALL_GATHER
        return (yield from self._rank.collective(name, GroupRole.CONTEXT, kind, self._size_bytes, ready))

    def _pass_on(self, name: str, tag: int, held: int, step: int) -> Emission:
        """Send what is held to the next rank and receive from the one before, except after the last step."""
        if step == self._ranks - 1:
            return held
        yield from self._send(name, tag, held)
        return (yield from self._receive(name, tag, held))

    def _send(self, name: str, tag: int, *after: int) -> Emission:
        return (yield from self._rank.message(name, CommKind.SEND, self._next, tag, self._size_bytes, *after))

    def _receive(self, name: str, tag: int, *after: int) -> Emission:
        return (yield from self._rank.message(name, CommKind.RECV, self._before, tag, self._size_bytes, *after))
