"""Nodes of one rank of a transformer, with the groups that it is in."""

from __future__ import annotations

from emulator.trace.meaning.model import CommKind
from emulator.trace.synthetic.node_chain import Emission, NodeChain
from emulator.trace.synthetic.synthetic import GroupRole
from emulator.trace.synthetic.transformer.times import compute_times
from emulator.trace.synthetic.transformer.transformer import Transformer


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
