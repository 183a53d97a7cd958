"""The details of a storage operation (Chakra's StorageInfo) as a record."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from emulator.errors import TraceError
from emulator.trace.model import RawStorage, StorageAction, StorageLevel
from emulator.wire._pb import et_pb2
from emulator.wire.trace.records import check_message

_ACTIONS = {
    et_pb2.FsOp.FS_OP_READ: StorageAction.READ,
    et_pb2.FsOp.FS_OP_PREAD: StorageAction.READ,
    et_pb2.FsOp.FS_OP_WRITE: StorageAction.WRITE,
    et_pb2.FsOp.FS_OP_PWRITE: StorageAction.WRITE,
}
_LEVELS = {"fs": StorageLevel.FILE, "page": StorageLevel.PAGE, "block": StorageLevel.BLOCK}


def read_storage(node: et_pb2.Node, *, row: int, path: Path) -> Iterator[RawStorage]:
    """The operation that a STORAGE, BATCH or CHECKPOINT node describes; nothing if it has no details.

    Raises:
        TraceError: a field has the wrong wire type, the level is unknown, or it is not that of the details.
    """
    if not node.HasField("storage"):
        return
    info = node.storage
    detail = info.WhichOneof("detail")
    check_message(info, path=path, node=node.id)
    if detail is not None:
        check_message(getattr(info, detail), path=path, node=node.id)
    is_file = detail == "fs"
    yield RawStorage(
        row=row,
        node_id=node.id,
        name=node.name,
        level=_level(info, detail, node, path),
        action=_ACTIONS.get(info.fs.op, StorageAction.OTHER) if is_file else StorageAction.OTHER,
        size_bytes=info.fs.size_bytes if is_file else 0,
        duration_micros=node.duration_micros,
    )


def _level(info: et_pb2.StorageInfo, detail: str | None, node: et_pb2.Node, path: Path) -> StorageLevel:
    """The stated level; where none is stated, that of the details."""
    implied = _LEVELS[detail] if detail is not None else StorageLevel.UNKNOWN
    if info.level not in range(len(StorageLevel)):
        raise TraceError(f"has storage level {info.level}; levels are numbered 0 to 4", path=path, node=node.id)
    stated = StorageLevel(info.level)
    if stated is StorageLevel.UNKNOWN:
        return implied
    if detail is not None and stated is not implied:
        problem = f"has storage level {stated.name}, but the details of an operation of level {implied.name}"
        raise TraceError(problem, path=path, node=node.id)
    return stated
