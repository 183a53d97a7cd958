"""The nodes of a rank of a transformer by name, and a model whose sizes are easy to tell."""

from emulator.annexes.workloads.transformer import Transformer
from emulator.annexes.workloads.transformer_workload import transformer_nodes
from emulator.trace.meaning.model import CommKind
from emulator.trace.synthetic.synthetic import WorkNode

MODEL = Transformer(
    layers=4, hidden=512, sequence=1024, batch=8, micro_batches=4, vocabulary=4096, tensor=2, pipeline=2, data=2
)
FIRST, LAST = 0, 4


def nodes_by_name(model: Transformer, rank: int) -> dict[str, WorkNode]:
    nodes = list(transformer_nodes(model, rank))
    named = {node.name: node for node in nodes}
    assert len(named) == len(nodes)
    return named


def waits_for(nodes: dict[str, WorkNode], name: str) -> set[str]:
    names = {node.node_id: other for other, node in nodes.items()}
    return {names[dep] for dep in nodes[name].deps}


ACTIVATION = 1 << 20
"""Bytes of a micro-batch of MODEL: 1,024 tokens of 512 values of two bytes."""


def sizes(nodes: dict[str, WorkNode], start: str, kind: CommKind) -> list[tuple[str, int]]:
    named = [(name.removeprefix(start), node) for name, node in nodes.items() if name.startswith(start)]
    return [(name, node.size_bytes) for name, node in named if node.kind is kind]
