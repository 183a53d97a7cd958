"""Nodes as columns are the nodes that went in, from memory and from a file."""

import gc
import pickle
from pathlib import Path

import numpy as np

from emulator.annexes.importers.model import ImportedNode, NodeResource, RecordedOperation
from emulator.annexes.importers.pytorch import node_table
from emulator.annexes.importers.pytorch.node_table import CPU, DEVICE, NETWORK, NodeColumns, NodeShelf, NodeTable
from emulator.trace.meaning.model import CommKind

OPERATION = RecordedOperation(where="x", name="allreduce", kind=CommKind.ALL_REDUCE, size_bytes=8)
NODES = [
    ImportedNode(1, "kernel", NodeResource.DEVICE, (), 0, 70),
    ImportedNode(2, "all_reduce", NodeResource.NETWORK, (1,), 70, 9, OPERATION),
    ImportedNode(3, "é", NodeResource.CPU, (1, 2), 80, 1),
]


def table() -> NodeTable:
    columns = NodeColumns(
        names=["é", "kernel", "all_reduce"],
        start_ns=np.array([0, 70, 80]),
        duration_ns=np.array([70, 9, 1]),
        name=np.array([1, 2, 0], dtype=np.int32),
        place=np.array([DEVICE, NETWORK, CPU], dtype=np.int8),
        dep_end=np.array([0, 1, 3]),
        dep=np.array([1, 1, 2], dtype=np.int32),
    )
    return NodeTable(columns, [OPERATION], size=3)


def test_rows_are_nodes(monkeypatch) -> None:
    assert list(table()) == NODES
    monkeypatch.setattr(node_table, "_BLOCK", 1)
    assert list(table()) == NODES
    assert (len(table()), NODES[2] in table(), table().operations) == (3, True, [OPERATION])


def test_nodes_in_a_file_are_the_same_and_go_with_their_table(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setattr(node_table, "_HELD_NODES", 2)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    shelf = NodeShelf()
    path = shelf.folder / "0.npz"
    stored = pickle.loads(pickle.dumps(table().stored(path)))
    shelf.keep(stored)
    del shelf
    gc.collect()
    assert list(stored) == list(stored) == NODES
    del stored
    gc.collect()
    assert not path.exists()


def test_few_nodes_need_no_file(tmp_path: Path) -> None:
    assert list(table().stored(tmp_path / "absent" / "0.npz")) == NODES
