"""Workloads as files: `<name>.<rank>.et` and `comm_group.json` in one folder.

Attribute types are those that every known reader of Chakra accepts. The same workload gives the same bytes.

A trace of any form that is read can be written in the same way.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import cast

from emulator._pb import et_pb2
from emulator.errors import HostError, InputError
from emulator.host.resources import exhausted
from emulator.trace.files.attributes import IN_SPLIT_NAMES, OUT_SPLIT_NAMES, AttrValue, make_attribute
from emulator.trace.files.compression import Encoding
from emulator.trace.files.files import TraceSet
from emulator.trace.files.frames import frame_output
from emulator.trace.files.load import REPORT_FILE, LoadedTrace
from emulator.trace.files.rewrite import KeptDependencies, rewrite_trace, write_trace
from emulator.trace.meaning.model import CommKind
from emulator.trace.meaning.order import left_dependencies
from emulator.trace.synthetic.synthetic import WORLD_GROUP, FileOperation, NodeStreams, WorkNode

GROUP_FILE = "comm_group.json"


def write_workload(workload: NodeStreams, folder: Path, *, force: bool | None = None) -> list[Path]:
    """Write every rank's trace, and the process groups where there are any.

    Args:
        workload: what to write.
        folder: made where it is absent.
        force: write into a folder that has files; those of an earlier workload of the same name go. None: the command
            has no such option.

    Returns:
        The files, in the order of the ranks, the group file last.

    Raises:
        InputError: the folder is not empty, or is not a folder.
        HostError: something cannot be written.
    """
    attributes: dict[str, AttrValue] = {"schema": workload.maker, "workload": workload.name, **workload.parameters}
    ranks = [folder / f"{workload.name}.{rank}.et" for rank in range(workload.ranks)]
    paths = [*ranks, folder / GROUP_FILE] if workload.groups else ranks
    with trace_folder(folder, paths, force=force):
        _remove_earlier(folder, workload.name, keep=set(ranks))
        for rank, path in enumerate(ranks):
            write_rank(path, workload.nodes(rank), rank=rank, attributes=attributes)
        if workload.groups:
            write_groups(paths[-1], workload.groups)
    return paths


def write_rank(path: Path, nodes: Iterable[WorkNode], *, rank: int, attributes: Mapping[str, AttrValue]) -> None:
    """Write the nodes of a rank as they come.

    Raises:
        HostError: the file cannot be written.
    """
    write_trace(path, (encode_node(node, rank=rank) for node in nodes), attributes=attributes)


def write_groups(path: Path, groups: Mapping[int, tuple[int, ...]]) -> None:
    """Write process groups as ASTRA-sim reads them: number → world ranks.

    Raises:
        HostError: the file cannot be written.
    """
    lines = (f"  {json.dumps(str(number))}: {json.dumps(list(ranks))}" for number, ranks in groups.items())
    text = "{\n" + ",\n".join(lines) + "\n}\n"
    with frame_output(path, encoding=Encoding.PLAIN) as output:
        output.write(text.encode())


def encode_node(node: WorkNode, *, rank: int) -> et_pb2.Node:
    """A node of `rank` as Chakra has it; all dependencies are data_deps, which every feeder follows."""
    encoded = et_pb2.Node(
        id=node.node_id,
        name=node.name,
        type=_node_type(node),
        data_deps=node.deps,
        start_time_micros=node.start_micros,
        duration_micros=node.duration_micros,
    )
    if node.file is not None:
        encoded.storage.CopyFrom(_storage_info(node.file))
    encoded.attr.add(name="is_cpu_op", bool_val=node.on_cpu)  # `add` takes half the time of appending a message
    if node.kind is not None:
        _add_communication(encoded, node, node.kind, rank)
    encoded.attr.extend(make_attribute(name, value) for name, value in node.attributes.items())
    return encoded


def _storage_info(file: FileOperation) -> et_pb2.StorageInfo:
    call = et_pb2.FsOp(
        op=cast(et_pb2.FsOp.Op, file.call.value), pathname=file.path, offset=file.offset, size_bytes=file.size_bytes
    )
    return et_pb2.StorageInfo(level=et_pb2.STORAGE_LEVEL_FS, fs=call)


def _node_type(node: WorkNode) -> et_pb2.NodeType:
    if node.kind is None:
        return cast(et_pb2.NodeType, node.node_type.value)
    if node.kind.is_collective:
        return et_pb2.COMM_COLL_NODE
    return et_pb2.COMM_SEND_NODE if node.kind is CommKind.SEND else et_pb2.COMM_RECV_NODE


def _add_communication(encoded: et_pb2.Node, node: WorkNode, kind: CommKind, rank: int) -> None:
    add = encoded.attr.add
    add(name="comm_size", int64_val=node.size_bytes)
    if not kind.is_collective:
        src, dst = (rank, node.peer) if kind is CommKind.SEND else (node.peer, rank)
        for name, value in (("comm_src", src), ("comm_dst", dst), ("comm_tag", node.tag)):
            add(name=name, int32_val=value)
        return
    add(name="comm_type", int64_val=kind)
    if node.group != WORLD_GROUP:
        add(name="pg_name", string_val=str(node.group))
    if node.root >= 0:
        add(name="root_rank", int64_val=node.root)
    for name, splits in ((IN_SPLIT_NAMES[0], node.send_splits), (OUT_SPLIT_NAMES[0], node.recv_splits)):
        if splits is not None:
            encoded.attr.append(make_attribute(name, splits))


@contextmanager
def trace_folder(folder: Path, paths: Sequence[Path], *, force: bool | None = None) -> Iterator[None]:
    """Make the folder of a trace, or take an empty one, for the body to write these files there.

    Where the body fails they go, and the folder if it was made: the first ranks of a trace would pass for a whole one.

    Args:
        folder: of the files.
        paths: what the body writes.
        force: take a folder that is not empty; None: the command has no such option.

    Raises:
        InputError: the folder is not empty, or is not a folder.
        HostError: it cannot be made.
    """
    is_new = _prepare_folder(folder, force=force)
    try:
        yield
    except BaseException:
        for path in paths:
            with suppress(OSError):
                path.unlink()
        if is_new:
            with suppress(OSError):
                folder.rmdir()
        raise


def _prepare_folder(folder: Path, *, force: bool | None) -> bool:
    """Whether it had to be made."""
    is_new = not folder.exists()
    if not is_new and not folder.is_dir():
        raise InputError(f"{folder} is not a folder: give a folder for the trace")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        is_empty = not any(folder.iterdir())
    except OSError as error:
        problem = exhausted(error) or f"{error.strerror}; choose a different place"
        raise HostError(f"cannot write to {folder}: {problem}") from error
    if not is_empty and not force:
        also = "" if force is None else ", or --force to replace the trace in it"
        raise InputError(f"{folder} is not empty: give a different folder{also}")
    return is_new


def _remove_earlier(folder: Path, name: str, *, keep: set[Path]) -> None:
    rank_file = re.compile(rf"{re.escape(name)}\.\d+\.et")
    try:
        for path in set(folder.iterdir()) - keep:
            if path.name == GROUP_FILE or rank_file.fullmatch(path.name):
                path.unlink()
    except OSError as error:
        raise HostError(f"cannot replace the trace in {folder}: {error.strerror}; choose a different place") from error


_FORM = re.compile(r"(\.(et|json))?(\.(gz|zst))?$")


def convert_trace(loaded: LoadedTrace, folder: Path, *, lenient: bool = False) -> Sequence[Path]:
    """Write every rank as `<prefix>.<rank>.et`: protobuf, not compressed. Records that were protobuf keep their bytes.

    Args:
        loaded: the trace; that it was read proves that it can be converted.
        folder: made where it is absent.
        lenient: leave out the dependencies that a lenient reading leaves out.

    Returns:
        The files, in the order of the ranks, then comm_group.json and import.json where the trace has them.

    Raises:
        InputError: the folder is not empty.
        HostError: something cannot be written; what was written is removed again.
    """
    prefix = trace_name(loaded.files)
    ranks = [folder / f"{prefix}.{rank}.et" for rank in range(len(loaded.files))]
    groups = loaded.group_file if loaded.groups else None
    report = loaded.files.folder / REPORT_FILE
    copies = {} if groups is None else {folder / GROUP_FILE: groups}
    if loaded.imported.losses and report.is_file():
        copies[folder / REPORT_FILE] = report
    paths = [*ranks, *copies]
    with trace_folder(folder, paths):
        for source, path, trace in zip(loaded.files.paths, ranks, loaded.traces, strict=True):
            changes = {
                node_id: KeptDependencies(frozenset(ctrl), frozenset(data))
                for node_id, (ctrl, data) in (left_dependencies(trace) if lenient else {}).items()
            }
            rewrite_trace(source, path, changes, metadata={}, encoding=Encoding.PLAIN)
        for target, source in copies.items():
            _copy(source, target)
    return paths


def trace_name(files: TraceSet) -> str:
    """Prefix for files that are made from these; never empty."""
    return _FORM.sub("", files.prefix) or "trace"


def _copy(source: Path, target: Path) -> None:
    try:
        shutil.copyfile(source, target)
    except OSError as error:
        raise HostError(f"cannot write {target}: {error.strerror or error}; choose a different place") from error
