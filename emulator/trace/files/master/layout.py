"""The layout of a master file: one Parquet table with the communication of all ranks of a trace set.

Ranks that perform the same operations with the same sizes and dependencies share a *program*, which is stored once. A
row is a communication of a program; rows are sorted by program and then in canonical order. What may differ between
the ranks of a program is a list: one entry if they agree, else one for each rank in ascending order.

| column | type | meaning |
|---|---|---|
| program | int32 | number of the program |
| number | int32 | of the communication in its program, from 0 in canonical order |
| kind | string | all_reduce … barrier, send, recv |
| size_bytes | int64 | Chakra's comm_size: input bytes of a rank |
| waits_for | list of int32 | numbers of communications in the program that must be done before it begins |
| node_id | list of uint64 | id in the source |
| name | list of string | name of the node |
| group | list of int32 | index into the groups of the metadata; 0 is the world, also for send and recv |
| peer | list of int32 | other rank of a send or recv, else -1 |
| tag | list of int64 | of a send or recv, else 0 |
| root | list of int32 | world rank of the root, else -1 |
| send_splits, recv_splits | list of lists of int64 | uneven all_to_all: bytes to and from each member |
| start_micros, duration_micros | list of int64 | as recorded, 0 if not |

The metadata of the table has, under `charkha.master`, a JSON object: `version`, `name` (prefix of the source's files),
`programs` (ranks of each), `groups` (name and ranks of each) and `sha256`: of the other entries and all rows, see
`content_digest`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from emulator.trace.meaning.collective_names import COLLECTIVES
from emulator.trace.meaning.model import CommKind

METADATA_KEY = b"charkha.master"
VERSION = 1
MAGIC = b"PAR1"
"""First bytes of a Parquet file."""
KINDS = {**COLLECTIVES, CommKind.SEND.label: CommKind.SEND, CommKind.RECV.label: CommKind.RECV}
PER_RANK = (
    "node_id",
    "name",
    "group",
    "peer",
    "tag",
    "root",
    "send_splits",
    "recv_splits",
    "start_micros",
    "duration_micros",
)
"""Columns whose values are lists over the ranks of a program."""
SCHEMA = pa.schema(
    [
        ("program", pa.int32()),
        ("number", pa.int32()),
        ("kind", pa.string()),
        ("size_bytes", pa.int64()),
        ("waits_for", pa.list_(pa.int32())),
        ("node_id", pa.list_(pa.uint64())),
        ("name", pa.list_(pa.string())),
        ("group", pa.list_(pa.int32())),
        ("peer", pa.list_(pa.int32())),
        ("tag", pa.list_(pa.int64())),
        ("root", pa.list_(pa.int32())),
        ("send_splits", pa.list_(pa.list_(pa.int64()))),
        ("recv_splits", pa.list_(pa.list_(pa.int64()))),
        ("start_micros", pa.list_(pa.int64())),
        ("duration_micros", pa.list_(pa.int64())),
    ]
)


def content_digest(description: Mapping[str, Any], rows: Iterable[Mapping[str, Any]]) -> str:
    """SHA-256 in hex over the JSON of the description, then of each row, with sorted keys and without spaces."""
    state = hashlib.sha256()
    for one in (description, *rows):
        state.update(json.dumps(one, sort_keys=True, separators=(",", ":")).encode())
    return state.hexdigest()
