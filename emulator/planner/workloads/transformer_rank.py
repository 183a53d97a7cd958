"""Nodes of one rank of a transformer, with the groups that it is in."""

from __future__ import annotations

from emulator.planner.workloads.node_chain import Emission, NodeChain
from emulator.planner.workloads.synthetic import GroupRole
from emulator.planner.workloads.transformer import Transformer
from emulator.planner.workloads.transformer_times import compute_times
from emulator.trace.model import CommKind


class TransformerRank(NodeChain):
    """The nodes that parts of an iteration add to.

    Attributes:
        model: what is generated.
        at: position of the rank.
        times: durations of its compute nodes.
    """

    def __init__(self, model: Transformer, rank: int) -> None:
        super().__init__()
        self.model = model
        self.layout = model.layout
        self.at = self.layout.coordinates(rank)
        self.times = compute_times(model)

    def collective(self, name: str, role: GroupRole, kind: CommKind, size_bytes: int, *after: int) -> Emission:
        """A collective of the rank's group of this role, named after its kind; nothing if the rank is alone in it."""
        if self.layout.group_size(role) == 1:
            return max(after)
        group = self.layout.group(role, self.at)
        return (
            yield from self.communicate(f"{name}.{kind.label}", *after, kind=kind, size_bytes=size_bytes, group=group)
        )

    def message(self, name: str, kind: CommKind, peer: int, tag: int, size_bytes: int, *after: int) -> Emission:
        """A send or a receive, named after its kind."""
        text = f"{name}.{kind.label}"
        return (yield from self.communicate(text, *after, kind=kind, size_bytes=size_bytes, peer=peer, tag=tag))
