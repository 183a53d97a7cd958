"""Every field that a writer emits decides what is played, or is known to be without effect: none is passed over.

One field at a time is changed. Then the imported trace changes, something is counted, or the input is refused; else the
field must stand in WITHOUT_EFFECT.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from emulator.annexes.importers.registry import import_trace, importer_named
from emulator.errors import InputError
from tests.support.import_sources import AICB_HEADER, AICB_LAYERS, RANKS, inspector_records, log_lines, recorder_dump
from tests.support.pytorch_traces import KinetoDocument, data_parallel_host, data_parallel_rank, tensor

Documents = Mapping[str, list[Any]]
"""File → its documents, a line each: JSON values, or the words of a line."""


def host(rank: int) -> dict[str, Any]:
    """A step as schema 1.1.1 records it, with what its newer writers say by name."""
    trace = data_parallel_host(rank)
    value = [tensor(7, 64)]
    said = {"collective_name": "allreduce", "pg_name": "0", "pg_size": 2, "dtype": "Float"}
    inputs = [value, 4, ["0", "default_pg"], rank, "allreduce", [], [], 0, 1, 2]
    trace.node("record_param_comms", inputs, [value], in_msg_nelems=64, out_msg_nelems=64, **said)
    return trace.document()


def nccl(rank: int) -> dict[str, Any]:
    """What newer versions of PyTorch say of calls of NCCL in Kineto's trace."""
    trace = KinetoDocument(rank=rank, world_size=2, pid=100 + rank)
    world = {"Process_Group_Ranks": "[0, 1]", "Group_size": 2, "Process_Group_Description": "default_pg"}
    splits = {"In_split_size": "[1, 3]", "Out_split_size": "[1, 1]" if rank == 0 else "[3, 3]"}
    out = 2 if rank == 0 else 6
    trace.collective("broadcast", 1024, 0, (30, 10), **world, Rank=1)
    trace.collective("all_to_allv", 4, 100, (130, 10), **world, **splits, Out_msg_nelems=out)
    trace.collective("_allgather_base", 8, 200, (230, 10), **world, Out_msg_nelems=16)
    ends = {"send": {"Dst_Rank": 1}, "recv": {"Src_Rank": 0}}
    name = "recv" if rank else "send"
    trace.collective(name, 5, 300, (330, 10), **world, **ends[name])
    return trace.document()


def layers() -> list[list[str]]:
    return [line.split() for line in (AICB_HEADER, str(len(AICB_LAYERS)), *AICB_LAYERS)]


def log() -> list[list[str]]:
    return [line.split() for rank in range(RANKS) for line in log_lines(rank)]


SAMPLES: Mapping[str, tuple[str, Callable[[], Documents]]] = {
    "inspector": (
        "nccl-inspector",
        lambda: {f"node0-pid{100 + rank}.log": inspector_records(rank, verbose=True) for rank in range(RANKS)},
    ),
    "recorder": (
        "flight-recorder",
        lambda: {f"nccl_trace_rank_{rank}.json": [recorder_dump(rank)] for rank in range(RANKS)},
    ),
    "kineto": (
        "pytorch",
        lambda: {f"kineto_{rank}.json": [data_parallel_rank(rank, 2).document()] for rank in range(2)},
    ),
    "NCCL": ("pytorch", lambda: {f"kineto_{rank}.json": [nccl(rank)] for rank in range(2)}),
    "host": ("pytorch", lambda: {f"et_{rank}.json": [host(rank)] for rank in range(2)}),
    "log": ("nccl-log", lambda: {"job.log": log()}),
    "AICB": ("aicb", lambda: {"workload.txt": layers()}),
}
_OF_WRITER = "of the tool that wrote it; named where something cannot be read"
_DERIVED = "follows from size and time"
_ELSEWHERE = "said by another field as well"
WITHOUT_EFFECT: Mapping[str, Mapping[str, str]] = {
    "inspector": {
        **dict.fromkeys(("coll_perf.coll_algobw_gbs", "coll_perf.coll_busbw_gbs"), _DERIVED),
        "coll_perf.coll_timing_source": "where the time was taken",
        "coll_perf.event_trace_ts.coll_stop_ts": "start and time say it",
        "header.comm_name": "for people",
        "header.nnodes": "hosts are named",
        "metadata.dump_timestamp_us": "of the writing, not of the call",
        **dict.fromkeys(
            ("metadata.git_rev", "metadata.inspector_output_format_version", "metadata.rec_mechanism"), _OF_WRITER
        ),
    },
    "recorder": {
        **dict.fromkeys(("comm_lib_version", "version"), _OF_WRITER),
        **dict.fromkeys(
            (f"entries.*.frames.*.{name}" for name in ("filename", "line", "name")), "lines of the program"
        ),
        "entries.*.is_p2p": "the name says it",
        **dict.fromkeys(("entries.*.op_id", "entries.*.pg_id"), "numbers within the process"),
        "entries.*.output_dtypes.*": "the type of the input",
        "entries.*.p2p_seq_id": "messages with one number are issued together; here is one of each",
        **dict.fromkeys(("entries.*.retired", "entries.*.state"), "only together they say that a call had not ended"),
        **dict.fromkeys(("entries.*.time_discovered_started_ns", "entries.*.timeout_ms"), "of the watchdog"),
        **{f"pg_config.{group}.{name}": _ELSEWHERE for group in "012" for name in ("desc", "name")},
    },
    "kineto": {
        **dict.fromkeys(("schemaVersion", "traceName"), _OF_WRITER),
        "distributedInfo.backend": "the calls say it",
        "distributedInfo.pg_config.*.pg_desc": "for notes of the user, of which there is none",
        "traceEvents.*.args.Out msg nelems": "an all-reduce has the size of its input",
    },
    "NCCL": {
        **dict.fromkeys(("schemaVersion", "traceName"), _OF_WRITER),
        "distributedInfo.backend": "the calls say it",
        "traceEvents.*.args.Process Group Description": "for people: the name is there",
    },
    "host": {
        **dict.fromkeys(("schema", "time", "start_ts", "finish_ts"), _OF_WRITER),
        **dict.fromkeys(("pid", "nodes.*.attrs.rf_id", "nodes.*.attrs.tid"), "there is no trace of Kineto to join"),
        **dict.fromkeys(
            (f"nodes.*.attrs.{name}" for name in ("fw_parent", "fw_tid", "op_schema", "scope", "seq_id")),
            "of the operator, not of its traffic",
        ),
        "nodes.*.attrs.*.type": "of the value, which says it",
        "nodes.*.attrs.dtype": "the tensors say it",
        "nodes.*.attrs.out_msg_nelems": "an all-reduce has the size of its input",
    },
    "log": {
        "version": _OF_WRITER,
        **dict.fromkeys(("busId", "nvmlDev"), "of the device, whose number is there"),
        **dict.fromkeys(("key", "word 23"), "order within a split: the rank says it"),
        "op": "which reduction it is",
        "word 0": "ends with the number of the thread",
        **dict.fromkeys(("recvbuff", "sendbuff"), "addresses"),
    },
    "AICB": {
        **dict.fromkeys(("ga", "vpp"), "the layers are those of all micro-batches and stages"),
        "pp_comm": "transfers between stages, which are counted where there are several",
        "word 1": "layers follow each other",
        "word 11": "times of weight updates are counted, not played",
    },
}
"""Sample → field → why it does not matter what it says."""


def fields(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where the plain values of a document are."""
    entries = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list | tuple) else None
    )
    if entries is None:
        yield path
    for key, one in entries or ():
        yield from fields(one, (*path, key))


def named(document: Any, path: tuple[Any, ...]) -> str:
    """A field, wherever it is in its list; an attribute by its name; a word by the one before it or its place."""
    if isinstance(document, list):
        before = document[path[0] - 1] if path[0] else ""
        is_value = before.endswith(":") or ("INFO" in document and before[:1].isalpha())
        return before.rstrip(":") if is_value else f"word {path[0]}"
    words = []
    for key in path:
        holder, document = document, document[key]
        is_attribute = words[-1:] == ["attrs"] and path[-1] == "value"
        words.append(document["name"] if is_attribute else "*" if isinstance(holder, list | tuple) else str(key))
    return ".".join(words[:-1] if "attrs" in words[:-2] and path[-1] == "value" else words)


def changed(value: Any) -> Any:
    if isinstance(value, bool) or value is None:
        return not value
    if isinstance(value, str) and value.endswith("]"):
        return value[:-1] + ", 7]"
    if isinstance(value, str) and value.isdigit():
        return str(int(value) * 2 + 1)
    return value * 2 + 1 if isinstance(value, int | float) else f"{value}7"


def seen(folder: Path, importer: str, documents: Documents) -> object:
    """All that an import makes of documents."""
    for name, those in documents.items():
        lines = (" ".join(one) if isinstance(one, list) else json.dumps(one) for one in those)
        (folder / name).write_text("\n".join(lines) + "\n")
    try:
        trace = import_trace(importer_named(importer), folder)
    except InputError:
        return "refused"
    ranks = [(one.rank, one.world_size, [repr(node) for node in one.nodes]) for one in trace.ranks]
    return ranks, trace.missing, [(fate, what, tally.count) for fate, what, tally in trace.losses]


def with_one_changed(documents: Documents, file: str, number: int, path: tuple[Any, ...]) -> Documents:
    copied = deepcopy(dict(documents))
    at = copied[file][number] = json.loads(json.dumps(copied[file][number]))
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = changed(at[path[-1]])
    return copied


@pytest.mark.parametrize("name", SAMPLES)
def test_no_field_is_passed_over(name: str, tmp_path: Path) -> None:
    importer, make = SAMPLES[name]
    documents = make()
    before = seen(tmp_path, importer, documents)
    assert before != "refused"
    unseen: set[str] = set()
    found: set[str] = set()
    for file, those in documents.items():
        for number, document in enumerate(those):
            for path in fields(document):
                if importer == "aicb" and document[path[0]].endswith(":"):
                    continue  # the name of a setting
                if seen(tmp_path, importer, with_one_changed(documents, file, number, path)) == before:
                    unseen.add(named(document, path))
                else:
                    found.add(named(document, path))
    assert unseen - found == set(WITHOUT_EFFECT[name])
