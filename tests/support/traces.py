"""Rank traces written by hand, for tests: a node a line, columns built from them."""

import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from rich.console import Console

from emulator.trace.analysis.summary import Summary, summarise
from emulator.trace.meaning.model import (
    CommKind,
    NodeType,
    RankTrace,
    RawCommunication,
    RawStorage,
    StorageAction,
    StorageLevel,
)
from emulator.trace.meaning.workload import build_workload
from emulator.views.terminal.trace_summary import render

COMP, LOAD, STORE, METADATA, INVALID = (
    NodeType.COMP,
    NodeType.MEM_LOAD,
    NodeType.MEM_STORE,
    NodeType.METADATA,
    NodeType.INVALID,
)


@dataclass(frozen=True)
class Node:
    """A node as a test writes it; `deps` are data dependencies, `ctrl` control dependencies, by id."""

    id: int
    type: NodeType
    name: str = ""
    duration: int = 0
    start: int = 0
    deps: Sequence[int] = ()
    ctrl: Sequence[int] = ()
    cpu: bool = False
    pytorch: bool = False
    raw: Mapping[str, Any] = field(default_factory=dict)


def node(id: int, type: NodeType = COMP, **fields: Any) -> Node:  # noqa: A002 (as the schema names them)
    """A compute, memory, metadata or invalid node."""
    return Node(id, type, **fields)


NODE_FIELDS = ("name", "duration", "start", "deps", "ctrl", "cpu", "pytorch")


def _communication(id: int, type: NodeType, fields: dict[str, Any]) -> Node:  # noqa: A002
    own = {name: fields.pop(name) for name in NODE_FIELDS if name in fields}
    return Node(id, type, raw=fields, **own)


def coll(id: int, kind: str | int | None, size: int | None = 8, pg: str | None = None, **fields: Any) -> Node:  # noqa: A002
    """A collective; `kind` is a label, or any number; further fields as in RawCommunication."""
    number = CommKind[kind.upper()].value if isinstance(kind, str) else kind
    return _communication(id, NodeType.COMM_COLL, {"comm_type": number, "comm_size": size, "pg_name": pg, **fields})


def send(id: int, dst: int | None, size: int | None = 8, tag: int | None = None, **fields: Any) -> Node:  # noqa: A002
    """A send."""
    return _communication(id, NodeType.COMM_SEND, {"dst": dst, "comm_size": size, "tag": tag, **fields})


def recv(id: int, src: int | None, size: int | None = 8, tag: int | None = None, **fields: Any) -> Node:  # noqa: A002
    """A receive."""
    return _communication(id, NodeType.COMM_RECV, {"src": src, "comm_size": size, "tag": tag, **fields})


def storage(
    id: int,  # noqa: A002 (as the schema names it)
    action: str = "other",
    size: int = 0,
    *,
    level: StorageLevel = StorageLevel.FILE,
    **fields: Any,
) -> Node:
    """A storage node; `action` is read, write or other."""
    raw = {"level": level, "action": StorageAction[action.upper()], "size_bytes": size}
    return Node(id, NodeType.STORAGE, raw=raw, **fields)


def rank_trace(
    rank: int,
    nodes: Iterable[Node],
    *,
    groups: Mapping[str, tuple[int, ...]] | None = None,
    attributes: Mapping[str, int] | None = None,
) -> RankTrace:
    """The trace of a rank, nodes in the file order given; its path is `trace.<rank>.et`."""
    listed = list(nodes)
    dependencies = [[*item.ctrl, *item.deps] for item in listed]
    return RankTrace(
        path=f"trace.{rank}.et",
        rank=rank,
        schema="",
        node_id=np.array([item.id for item in listed], dtype=np.uint64),
        node_type=np.array([item.type for item in listed], dtype=np.int8),
        is_cpu=np.array([item.cpu for item in listed], dtype=np.bool_),
        is_pytorch_op=np.array([item.pytorch for item in listed], dtype=np.bool_),
        start_micros=np.array([item.start for item in listed], dtype=np.int64),
        duration_micros=np.array([item.duration for item in listed], dtype=np.int64),
        dep_offset=np.cumsum([0, *map(len, dependencies)], dtype=np.int64),
        ctrl_count=np.array([len(item.ctrl) for item in listed], dtype=np.int64),
        dep_id=np.array([dep for deps in dependencies for dep in deps], dtype=np.uint64),
        communications=[
            RawCommunication(
                row=row,
                node_id=item.id,
                name=item.name or f"node {item.id}",
                node_type=item.type,
                duration_micros=item.duration,
                **item.raw,
            )
            for row, item in enumerate(listed)
            if NodeType.COMM_SEND <= item.type <= NodeType.COMM_COLL
        ],
        storage=[
            RawStorage(
                row=row, node_id=item.id, name=item.name or f"node {item.id}", duration_micros=item.duration, **item.raw
            )
            for row, item in enumerate(listed)
            if item.type >= NodeType.STORAGE and item.raw
        ],
        groups=dict(groups or {}),
        attribute_names=dict(attributes or {}),
    )


SUMMARY_GROUPS = {"tp": (0, 1), "spare": (2,)}


def example_summary() -> Summary:
    """Three ranks: tensor parallel on two, a message to the third, an all-reduce of all."""
    gather = {"deps": [1], "pg": "tp"}
    last = coll(9, "all_reduce", 8, deps=[2], duration=1)
    traces = [
        rank_trace(0, [node(1, COMP, duration=5), coll(2, "all_gather", 100, duration=50, **gather), last]),
        rank_trace(
            1,
            [
                node(1, COMP, duration=7, cpu=True),
                coll(2, "all_gather", 100, duration=40, **gather),
                send(8, 2, 30, deps=[2], duration=4),
                last,
            ],
        ),
        rank_trace(2, [node(1, METADATA), recv(2, 1, 30, duration=3), last], groups={"mine": (1, 2), "0": ()}),
    ]
    return summarise(build_workload(traces, groups=SUMMARY_GROUPS), traces, groups=SUMMARY_GROUPS)


def shown_summary(summary: Summary) -> str:
    stream = io.StringIO()
    Console(file=stream, width=120, no_color=True).print(render(summary))
    return stream.getvalue()
