"""Forward and backward pass of one layer on one rank.

Tensor parallelism: Shoeybi et al., arXiv 1909.08053; with the activations split by tokens (sequence parallelism):
Korthikanti et al., arXiv 2205.05198, where a layer keeps its share of an input alone and gathers it again for the
gradients of the weights. Experts: GShard, arXiv 2006.16668, in Megatron-LM's order: dispatch, gather over tensor ranks.
"""

from __future__ import annotations

from emulator.trace.meaning.model import CommKind
from emulator.trace.synthetic.device import BACKWARD_TO_FORWARD
from emulator.trace.synthetic.node_chain import Emission
from emulator.trace.synthetic.synthetic import GroupRole
from emulator.trace.synthetic.transformer.attention import Attention
from emulator.trace.synthetic.transformer.rank import TransformerRank


class Layer:
    """Adds the nodes of layers to those of a rank."""

    def __init__(self, rank: TransformerRank) -> None:
        self._rank, self._model = rank, rank.model
        self._attention = Attention(rank)

    def forward(self, name: str, ready: int) -> Emission:
        """Attention, then the MLP or the experts."""
        ready = yield from self.enter(f"{name}.attention", ready)
        ready = yield from self._attention.forward(f"{name}.attention", ready)
        ready = yield from self.leave(f"{name}.attention", ready)
        if self._model.experts > 1:
            return (yield from self._experts_forward(name, ready))
        ready = yield from self.enter(f"{name}.mlp", ready)
        ready = yield from self._rank.compute(f"{name}.mlp", self._rank.times.mlp, ready)
        return (yield from self.leave(f"{name}.mlp", ready))

    def backward(self, name: str, ready: int) -> Emission:
        """The same in reverse, with the gradients."""
        if self._model.experts > 1:
            ready = yield from self._experts_backward(name, ready)
        else:
            ready = yield from self.leave_backward(f"{name}.mlp", ready)
            ready = yield from self._rank.compute(f"{name}.mlp", self._rank.times.mlp * BACKWARD_TO_FORWARD, ready)
            ready = yield from self.leave(f"{name}.mlp", ready)
        ready = yield from self.leave_backward(f"{name}.attention", ready)
        ready = yield from self._attention.backward(f"{name}.attention", ready)
        return (yield from self.leave(f"{name}.attention", ready))

    # Where a part begins and ends whose matrices tensor ranks share.

    def enter(self, name: str, ready: int) -> Emission:
        """Before matrices that are split, and again for the gradients of their weights: every rank needs all tokens."""
        if not self._model.is_split:
            return ready
        return (yield from self._tensor(f"{name}.input", CommKind.ALL_GATHER, self._model.held_activation_bytes, ready))

    def leave(self, name: str, ready: int) -> Emission:
        """After them, and after their backward pass: the partial results, or the gradients of the input, are summed."""
        kind = CommKind.REDUCE_SCATTER if self._model.is_split else CommKind.ALL_REDUCE
        return (yield from self._tensor(name, kind, self._model.activation_bytes, ready))

    def leave_backward(self, name: str, ready: int, *, weights: bool = True) -> Emission:
        """Before the backward pass: gradients of all tokens; for those of the weights the input as well."""
        if not self._model.is_split:
            return ready
        size_bytes = self._model.held_activation_bytes
        gathered = yield from self._tensor(f"{name}.gradient", CommKind.ALL_GATHER, size_bytes, ready)
        return (yield from self.enter(name, gathered)) if weights else gathered

    def _tensor(self, name: str, kind: CommKind, size_bytes: int, ready: int) -> Emission:
        return (yield from self._rank.collective(name, GroupRole.TENSOR, kind, size_bytes, ready))

    # Experts: dispatch, and gather the tokens of the other tensor ranks; sum up, and combine.

    def _experts_forward(self, name: str, ready: int) -> Emission:
        ready = yield from self._rank.compute(f"{name}.router", self._rank.times.router, ready)
        ready = yield from self._to_experts(name, ready)
        ready = yield from self._rank.compute(f"{name}.mlp", self._rank.times.mlp, ready)
        return (yield from self._from_experts(name, ready))

    def _experts_backward(self, name: str, ready: int) -> Emission:
        ready = yield from self._to_experts(name, ready)
        ready = yield from self._rank.compute(f"{name}.mlp", self._rank.times.mlp * BACKWARD_TO_FORWARD, ready)
        ready = yield from self._from_experts(name, ready)
        return (yield from self._rank.compute(f"{name}.router", self._rank.times.router * BACKWARD_TO_FORWARD, ready))

    def _to_experts(self, name: str, ready: int) -> Emission:
        size_bytes = self._model.dispatch_bytes
        ready = yield from self._exchange(f"{name}.dispatch", ready)
        return (yield from self._tensor(f"{name}.dispatch", CommKind.ALL_GATHER, size_bytes, ready))

    def _from_experts(self, name: str, ready: int) -> Emission:
        size_bytes = self._model.dispatch_bytes * self._model.tensor
        ready = yield from self._tensor(f"{name}.combine", CommKind.REDUCE_SCATTER, size_bytes, ready)
        return (yield from self._exchange(f"{name}.combine", ready))

    def _exchange(self, name: str, ready: int) -> Emission:
        size_bytes = self._model.dispatch_bytes
        return (yield from self._rank.collective(name, GroupRole.EXPERT, CommKind.ALL_TO_ALL, size_bytes, ready))
