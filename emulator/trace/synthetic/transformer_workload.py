"""A transformer as a workload: nodes and process groups."""

from __future__ import annotations

from functools import partial

from emulator.trace.meaning.model import CommKind
from emulator.trace.synthetic.layout import Coordinates, Layout
from emulator.trace.synthetic.options import described
from emulator.trace.synthetic.synthetic import GroupRole, SyntheticWorkload, WorkNode
from emulator.trace.synthetic.transformer import ContextExchange, Transformer
from emulator.trace.synthetic.transformer_stage import transformer_nodes


def transformer_workload(model: Transformer) -> SyntheticWorkload:
    """One training iteration of `model` on tensor x context x data x pipeline ranks."""
    layout = model.layout
    first = [layout.rank(Coordinates(0, 0, stage)) for stage in range(layout.pipeline)]
    return SyntheticWorkload(
        name="transformer",
        ranks=layout.ranks,
        groups=_groups(model),
        nodes=partial(transformer_nodes, model),
        parameters=described(model),
        role=partial(_role, layout),
        alike=dict.fromkeys(first, layout.ranks // layout.pipeline),
    )


def _groups(model: Transformer) -> dict[int, tuple[int, ...]]:
    """Those that perform collectives: a ring is sends and receives."""
    is_ring = model.context_exchange is ContextExchange.RING
    every = model.layout.groups().items()
    return {n: ranks for n, ranks in every if not (is_ring and model.layout.role(n) is GroupRole.CONTEXT)}


def _role(layout: Layout, rank: int, node: WorkNode) -> GroupRole:
    if node.kind not in (CommKind.SEND, CommKind.RECV):
        return layout.role(node.group)
    is_in_stage = layout.coordinates(rank).pipeline == layout.coordinates(node.peer).pipeline
    return GroupRole.CONTEXT if is_in_stage else GroupRole.PIPELINE
