"""Forward and backward pass of one layer of a transformer on one rank, and how long its nodes compute.

With context parallelism, ranks exchange keys and values of their tokens. In a ring, a rank computes with the keys and
values of one rank while those of the next are on their way; backward, they go round again, and the gradients of them
after them (Liu et al., Ring Attention, arXiv 2310.01889, in the order of Transformer Engine). Or every rank gathers
those of all, and the gradients are reduced and scattered.

Tensor parallelism: Shoeybi et al., arXiv 1909.08053; with the activations split by tokens (sequence parallelism):
Korthikanti et al., arXiv 2205.05198, where a layer keeps its share of an input alone and gathers it again for the
gradients of the weights. Experts: GShard, arXiv 2006.16668, in Megatron-LM's order: dispatch, gather over tensor ranks.
"""

from __future__ import annotations

from dataclasses import dataclass

from emulator.annexes.workloads.options import ADAM_STATE_BYTES, BACKWARD_TO_FORWARD, compute_micros, memory_micros
from emulator.annexes.workloads.totals import GroupRole
from emulator.annexes.workloads.transformer import ContextExchange, Transformer
from emulator.trace.meaning.model import CommKind
from emulator.trace.synthetic.synthetic import Emission, NodeChain


@dataclass(frozen=True, slots=True)
class ComputeTimes:
    """Durations of a rank's compute nodes for one micro-batch, µs, each at least 1.

    Attributes:
        attention, mlp: forward pass of half a layer; the backward pass takes twice as long. So it does for the others.
        queries, scores, projection: parts of attention, where context ranks exchange keys and values in between: the
            matrices before, the scores of one rank's keys and values, and the matrix after.
        router: choice of the experts.
        head: forward pass of the output layer.
        embedding: looking up the embeddings; accumulating their gradients takes as long.
    """

    attention: int
    mlp: int
    head: int
    embedding: int
    queries: int
    scores: int
    projection: int
    router: int


def compute_times(model: Transformer) -> ComputeTimes:
    """Durations of the compute nodes, from their operations and the rates that the device achieves.

    A matrix of p parameters takes 2p operations per token forward and 4p backward. Per token and layer, that is 8h² for
    the four matrices of attention, 4sh for the scores and their use, and 4fh² for an MLP of width fh; 2hV for the
    output layer. With f = 4, the sums are the 24Bsh² + 4Bs²h per layer and 2BshV of Narayanan et al., SC'21, appendix.
    A token takes as many MLPs as it uses experts, and 2hE to choose them. Embedding lookups are bound by memory: every
    activation is read once and written once.
    """
    h, s, tokens = model.hidden, model.sequence, model.micro_batch_tokens
    return ComputeTimes(
        attention=_compute_micros(model, tokens * (8 * h * h + 4 * s * h)),
        mlp=_compute_micros(model, tokens * model.top_k * 4 * model.ffn_multiplier * h * h),
        head=_compute_micros(model, tokens * 2 * h * model.vocabulary),
        embedding=memory_micros(2 * model.activation_bytes, gbytes_per_s=model.device_gbytes_per_s),
        queries=_compute_micros(model, tokens * 6 * h * h),
        scores=_compute_micros(model, tokens * 4 * s * h // model.context),
        projection=_compute_micros(model, tokens * 2 * h * h),
        router=_compute_micros(model, tokens * 2 * h * model.experts),
    )


def optimizer_micros(model: Transformer, stage: int) -> int:
    """Duration of the optimizer step of a stage, µs. It is bound by memory: ADAM_STATE_BYTES, gradient, parameter."""
    parameters, experts = model.stage_parameters(stage), model.stage_expert_parameters
    if model.shard_optimizer:
        parameters, experts = parameters // model.layout.replicas, experts // model.layout.expert_replicas
    size_bytes = (parameters + experts) * (ADAM_STATE_BYTES + 2 * model.dtype_bytes)
    return memory_micros(size_bytes, gbytes_per_s=model.device_gbytes_per_s)


def _compute_micros(model: Transformer, flops: int) -> int:
    return compute_micros(flops / model.tensor, tflops=model.device_tflops)


class TransformerRank(NodeChain):
    """The nodes that parts of an iteration add to.

    Attributes:
        times: durations of its compute nodes.
    """

    def __init__(self, model: Transformer, rank: int) -> None:
        super().__init__()
        self.model = model
        self.layout = model.layout
        self.at = self.layout.coordinates(rank)
        self.times = compute_times(model)
        self._groups: dict[GroupRole, int | None] = {}

    def collective(self, name: str, role: GroupRole, kind: CommKind, size_bytes: int, *after: int) -> Emission:
        """A collective of the rank's group of this role, named after its kind; nothing if the rank is alone in it."""
        group = self._group(role)
        if group is None:
            return max(after)
        return (yield from self.append(f"{name}.{kind.label}", *after, kind=kind, size_bytes=size_bytes, group=group))

    def message(self, name: str, kind: CommKind, peer: int, tag: int, size_bytes: int, *after: int) -> Emission:
        """A send or a receive, named after its kind."""
        text = f"{name}.{kind.label}"
        return (yield from self.append(text, *after, kind=kind, size_bytes=size_bytes, peer=peer, tag=tag))

    def _group(self, role: GroupRole) -> int | None:
        """Number of the rank's group of this role; None if the rank is alone in it."""
        if role not in self._groups:  # to count the groups before it takes longer than to make a node
            is_alone = self.layout.group_size(role) == 1
            self._groups[role] = None if is_alone else self.layout.group(role, self.at)
        return self._groups[role]


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
