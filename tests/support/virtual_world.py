"""Plays generated nodes of all ranks without time: what is left when nothing can go on is a deadlock."""

from collections import Counter, defaultdict
from collections.abc import Iterator

from emulator.trace.meaning.model import CommKind
from emulator.trace.synthetic.synthetic import WORLD_GROUP, NodeStreams, WorkNode


def stuck_nodes(workload: NodeStreams) -> list[str]:
    """Names of nodes that never finish, as `rank: name`.

    A rank's collectives of a group are posted strictly in order; a collective ends when all members posted it; sends
    end at once; the k-th receive of (src, dst, tag) ends after the k-th such send.
    """
    return _World(workload).play()


class _World:
    def __init__(self, workload: NodeStreams) -> None:
        self._members = {WORLD_GROUP: tuple(range(workload.ranks)), **workload.groups}
        self._pending = {rank: list(workload.nodes(rank)) for rank in range(workload.ranks)}
        self._done: dict[int, set[int]] = defaultdict(set)
        self._posted: dict[tuple[int, int], list[WorkNode]] = defaultdict(list)
        self._sent: Counter[tuple[int, int, int]] = Counter()

    def play(self) -> list[str]:
        while any(self._advance(rank) for rank in self._pending):
            pass
        return [f"{rank}: {node.name}" for rank, nodes in self._pending.items() for node in nodes]

    def _advance(self, rank: int) -> bool:
        before = len(self._pending[rank]), self._posts
        waiting_groups: set[int] = set()
        self._pending[rank] = [node for node in self._pending[rank] if not self._try(rank, node, waiting_groups)]
        return before != (len(self._pending[rank]), self._posts)

    @property
    def _posts(self) -> int:
        return sum(map(len, self._posted.values()))

    def _try(self, rank: int, node: WorkNode, waiting_groups: set[int]) -> bool:
        is_collective = node.kind is not None and node.kind.is_collective
        is_free = set(node.deps) <= self._done[rank] and node.group not in waiting_groups
        if is_free and self._ends(rank, node):
            self._done[rank].add(node.node_id)
            return True
        if is_collective:
            waiting_groups.add(node.group)
        return False

    def _ends(self, rank: int, node: WorkNode) -> bool:
        if node.kind is None:
            return True
        if node.kind is CommKind.SEND:
            self._sent[rank, node.peer, node.tag] += 1
            return True
        if node.kind is CommKind.RECV:
            return self._receives((node.peer, rank, node.tag))
        return self._meet(rank, node)

    def _receives(self, key: tuple[int, int, int]) -> bool:
        arrived = self._sent[key] > 0
        self._sent[key] -= arrived
        return arrived

    def _meet(self, rank: int, node: WorkNode) -> bool:
        mine = self._posted[node.group, rank]
        if not mine or mine[-1] != node:
            mine.append(node)
        others = list(self._others(node.group, len(mine) - 1))
        assert all(other.kind == node.kind for other in others), node.name
        if node.send_splits is None:
            assert all(other.size_bytes == node.size_bytes for other in others), node.name
        return len(others) == len(self._members[node.group])

    def _others(self, group: int, index: int) -> Iterator[WorkNode]:
        for member in self._members[group]:
            posted = self._posted[group, member]
            if len(posted) > index:
                yield posted[index]
