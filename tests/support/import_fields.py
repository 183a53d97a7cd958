"""A recording in each format that is imported, and which of its fields are known to be without effect."""

import json
import pickle
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from math import prod
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml
from google.protobuf.json_format import MessageToDict, ParseDict, ParseError

from emulator._pb import et_pb2
from emulator.annexes.importers.importing import import_trace, importer_named
from emulator.annexes.importers.model import ImportedTrace
from emulator.annexes.importers.writing import write_imported
from emulator.errors import InputError
from emulator.experiment.settle.workload import load_from_files, named_as, prove_files
from emulator.experiment.spec.spec import Trace
from emulator.trace.files.attributes import (
    IDLE,
    IN_SPLIT_NAMES,
    MEANT,
    OUT_SPLIT_NAMES,
    ROOT_NAMES,
    UnreadableGroups,
    parse_process_groups,
)
from emulator.trace.files.load import REPORT_FILE
from tests.support.import_sources import (
    AICB_HEADER,
    AICB_LAYERS,
    KVBENCH_CONFIG,
    KVBENCH_MATRICES,
    RANKS,
    inspector_records,
    log_lines,
    recorder_dump,
)
from tests.support.mutants import different_places, in_lines, without_raw, written
from tests.support.pytorch_traces import KinetoDocument, data_parallel_host, data_parallel_rank, tensor
from tests.support.trace_files import attribute, frame

Place = tuple[str, int, tuple[Any, ...]]
"""File, number of the document, keys."""
CHAKRA = "chakra"
"""No importer, but the reader of what all others write."""
Documents = Mapping[str, list[Any]]
"""File → its documents, a line each: JSON values, or the words of a line."""


def host(rank: int) -> dict[str, Any]:
    """A step as schema 1.1.1 records it, with what its newer writers say by name."""
    trace = data_parallel_host(rank)
    said = {"collective_name": "_allgather_base", "pg_name": "0", "pg_size": 2, "dtype": "Float"}
    shard, whole = [tensor(5, 64)], [tensor(7, 128)]
    inputs = [shard, 4, ["0", "default_pg"], rank, "_allgather_base", [], [], 0, 1, 2]
    trace.node("record_param_comms", inputs, [whole], in_msg_nelems=64, out_msg_nelems=128, **said)
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


def patterns() -> Documents:
    """A YAML file of KVBench and its matrices, of which a word is a cell."""
    matrices = {
        f"matrix_{number}.txt": [row.split() for row in matrix.splitlines()]
        for number, matrix in enumerate(KVBENCH_MATRICES)
    }
    matrices["matrix_0.txt"][3][3] = "0"  # what a rank sends to itself is left out, whatever its size
    return {"metadata.yaml": [yaml.safe_load(KVBENCH_CONFIG)], **matrices}


def nodes(rank: int) -> list[Any]:
    """A trace as Chakra's own converter writes it: the metadata, and a node of each kind."""
    tensor_of = et_pb2.IOInfo(values="[1]", shapes="[[4]]", types="['Tensor(float)']")
    world = [attribute("pg_name", string_val="3"), attribute("is_cpu_op", bool_val=False)]
    group = et_pb2.Node(id=1, name="## process_group:init ##", type=et_pb2.METADATA_NODE, inputs=tensor_of)
    group.inputs.values = '[\'[{"pg_name": "3", "ranks": [0, 1]}]\']'
    compute = et_pb2.Node(id=2, name="aten::mm", type=et_pb2.COMP_NODE, ctrl_deps=[1], duration_micros=40)
    compute.start_time_micros = 10
    compute.inputs.CopyFrom(tensor_of)
    compute.outputs.CopyFrom(tensor_of)
    on_cpu = attribute("is_cpu_op", bool_val=True)
    compute.attr.extend([attribute("rf_id", uint64_val=7), attribute("num_ops", int64_val=9), on_cpu])
    inner = et_pb2.Node(id=9, name="aten::empty", type=et_pb2.COMP_NODE, ctrl_deps=[2], duration_micros=15)
    inner.attr.extend([attribute("rf_id", uint64_val=8), on_cpu])
    inner.start_time_micros = 20
    split = [attribute("in_split_sizes", int64_list=[2, 2] if rank else [1, 3])]
    split.append(attribute("out_split_sizes", int64_list=[3, 2] if rank else [1, 2]))
    peer = attribute("comm_dst" if rank == 0 else "comm_src", int32_val=1 - rank)
    kinds = [
        ("broadcast", et_pb2.COMM_COLL_NODE, et_pb2.BROADCAST, [attribute("root_rank", int64_val=1)]),
        ("all_to_all", et_pb2.COMM_COLL_NODE, et_pb2.ALL_TO_ALL, split),
        ("message", et_pb2.COMM_SEND_NODE + rank, None, [peer, attribute("comm_tag", int64_val=3)]),
    ]
    found = [et_pb2.GlobalMetadata(version="0.0.4"), group, compute, inner]
    for number, (name, kind, collective, more) in enumerate(kinds, 3):
        node = et_pb2.Node(id=number, name=name, type=kind, data_deps=[number - 1], duration_micros=5)
        node.attr.extend([*world, *more, attribute("comm_size", int64_val=1 << 20)])
        if collective is not None:
            node.attr.append(attribute("comm_type", int64_val=collective))
        found.append(node)
    return [MessageToDict(one, preserving_proto_field_name=True) for one in found]


def write_words(path: Path, documents: list[Any]) -> None:
    path.write_bytes(b"".join(b" ".join(map(_word, one)) + b"\n" for one in documents))


def write_json(path: Path, documents: list[Any]) -> None:
    path.write_bytes(b"".join(written(one) + b"\n" for one in documents))


def _word(value: Any) -> bytes:
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else written(value)


def write_patterns(path: Path, documents: list[Any]) -> None:
    if path.suffix == ".yaml":
        path.write_bytes(in_lines(documents[0]).replace(b'"matrix', b'\n"matrix'))  # keys begin lines
    else:
        write_words(path, documents)


def write_pickle(path: Path, documents: list[Any]) -> None:
    path.write_bytes(pickle.dumps(without_raw(documents[0]), protocol=2))


def write_et(path: Path, documents: list[Any]) -> None:
    kinds = [et_pb2.GlobalMetadata, *[et_pb2.Node] * (len(documents) - 1)]
    path.write_bytes(
        b"".join(frame(ParseDict(one, kind()).SerializeToString()) for kind, one in zip(kinds, documents, strict=True))
    )


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
    "pickles": ("flight-recorder", lambda: {f"nccl_trace_rank_{rank}": [recorder_dump(rank)] for rank in range(RANKS)}),
    "KVBench": ("kvbench", patterns),
    "ET": (CHAKRA, lambda: {f"t.{rank}.et": nodes(rank) for rank in range(2)}),
}
WRITERS: Mapping[str, Callable[[Path, list[Any]], None]] = {
    **dict.fromkeys(("log", "AICB"), write_words),
    "pickles": write_pickle,
    "KVBench": write_patterns,
    "ET": write_et,
}
_OF_WRITER = "of the tool that wrote it; named where something cannot be read"
_DERIVED = "follows from size and time"
_ELSEWHERE = "said by another field as well"
_OF_OPERATOR = ("fw_parent", "fw_tid", "op_schema", "scope", "seq_id")
_OF_CALL = ("collective_name", "dtype", "in_msg_nelems", "out_msg_nelems", "pg_name", "pg_size")
_OF_DEVICE = dict.fromkeys(("traceEvents.kernel.pid", "traceEvents.kernel.tid"), "the arguments say device and stream")
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
        "entries.*.p2p_seq_id": "messages with one number are issued together; here is one of each",
        **dict.fromkeys(("entries.*.retired", "entries.*.state"), "only together they say that a call had not ended"),
        **dict.fromkeys(("entries.*.time_discovered_started_ns", "entries.*.timeout_ms"), "of the watchdog"),
        **{f"pg_config.{group}.{name}": _ELSEWHERE for group in "012" for name in ("desc", "name")},
    },
    "kineto": {
        **dict.fromkeys(("schemaVersion", "traceName"), _OF_WRITER),
        "distributedInfo.backend": "the calls say it",
        "distributedInfo.pg_config.*.pg_desc": "for notes of the user, of which there is none",
        **_OF_DEVICE,
        **dict.fromkeys(
            (f"traceEvents.user_annotation.{name}" for name in ("ph", "name", "pid", "tid", "ts", "dur")),
            "a note of the user that names no process group",
        ),
    },
    "NCCL": {
        **dict.fromkeys(("schemaVersion", "traceName"), _OF_WRITER),
        "distributedInfo.backend": "the calls say it",
        "traceEvents.cpu_op.args.Process Group Description": "for people: the name is there",
        **_OF_DEVICE,
        "traceEvents.kernel.name": "any kernel of NCCL within a call is that of the call",
        "traceEvents.cuda_runtime.dur": "a launch is over before its operator is",
    },
    "host": {
        **dict.fromkeys(("schema", "time", "start_ts", "finish_ts"), _OF_WRITER),
        **dict.fromkeys(
            ("pid", "nodes.*.attrs.rf_id.value", "nodes.*.attrs.tid.value"), "there is no trace of Kineto to join"
        ),
        **dict.fromkeys(
            (f"nodes.*.attrs.{name}.value" for name in _OF_OPERATOR), "of the operator, not of its traffic"
        ),
        **dict.fromkeys(
            (f"nodes.*.attrs.{name}.type" for name in ("rf_id", "tid", *_OF_OPERATOR, *_OF_CALL)),
            "of the value, which says it",
        ),
    },
    "log": {
        "version": _OF_WRITER,
        **dict.fromkeys(("busId", "nvmlDev"), "of the device, whose number is there"),
        "key": "order within a split: the rank says it",
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
    "KVBench": {"traffic_patterns.*.metadata.isl": "of the request that the pattern is from"},
    "ET": {
        "version": _OF_WRITER,
        "attr.rf_id.uint64_val": "its presence alone says what the dependencies are",
        **dict.fromkeys(("attr.num_ops.name", "attr.num_ops.int64_val"), "of the operator"),
        **dict.fromkeys(
            ("inputs.shapes", "inputs.types", "outputs.shapes", "outputs.types", "outputs.values"),
            "of the operator; only the values of a process group matter",
        ),
    },
}
WITHOUT_EFFECT = {**WITHOUT_EFFECT, "pickles": WITHOUT_EFFECT["recorder"]}
"""Sample → field → why it does not matter what it says."""


@dataclass(frozen=True, slots=True)
class Alike:
    """Why two values of a field, or of what holds it, make no difference, though others do.

    Attributes:
        are: whether two values are the same to the reader.
    """

    why: str
    are: Callable[[Any, Any], bool] = lambda before, after: True


def _same_call(before: str, after: Any) -> bool:
    return isinstance(after, str) and after.rpartition(":")[2] == before.rpartition(":")[2]


def _same_file(before: str, after: Any) -> bool:
    return isinstance(after, str) and after.rpartition("/")[2] == before.rpartition("/")[2]


def _same_shape(before: list[int], after: Any) -> bool:
    return isinstance(after, list) and all(type(one) is int for one in after) and prod(before) == prod(after)


def _same_type(before: str, after: Any) -> bool:
    types = [before, *(_TIMED_TYPES if before in _TIMED_TYPES else ())]
    return str(after) in {*types, *(str(et_pb2.NodeType.Value(one)) for one in types)}


_TIMED_TYPES = ("MEM_LOAD_NODE", "MEM_STORE_NODE", "COMP_NODE")


def _still_within(before: str, after: Any) -> bool:
    """Whether the operator from 20 to 35 µs is still within that from 10 to 50 µs, with another start of one; 0: none.

    Without a start it is within the one that calls it, which is longer.
    """
    starts = {"10": (0, *range(1, 21)), "20": (0, *range(10, 36))}
    return str(after).isascii() and str(after).isdigit() and int(after) in starts.get(before, ())


def _same_meaning(before: str, after: Any) -> bool:
    return any(before in names and after in names for names in (IN_SPLIT_NAMES, OUT_SPLIT_NAMES, ROOT_NAMES))


def _false(before: dict[str, Any], after: Any) -> bool:
    return before.get("bool_val") is False and isinstance(after, dict) and after.get("name") in IDLE | MEANT


def _another(before: dict[str, Any], after: Any) -> bool:
    return isinstance(after, dict) and after.get("name") in MEANT - {before["name"]}


def _said_again(before: dict[str, Any], after: Any) -> bool:
    return isinstance(after, dict) and (after.get("name"), after.get("value")) in [("dtype", "Float"), ("pg_name", "0")]


def _leaves(value: Any) -> list[Any]:
    listed = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return [value] if listed is None else [leaf for one in listed for leaf in _leaves(one)]


def _same_leaves(before: Any, after: Any) -> bool:
    return isinstance(after, list) and _leaves(before) == _leaves(after)


def _same_json(before: Any, after: Any) -> bool:
    try:
        return not [*different_places(json.loads(before), json.loads(after))]
    except (TypeError, ValueError):
        return _same_leaves(before, after)


def _same_groups(before: str, after: Any) -> bool:
    try:
        groups = [parse_process_groups(str(one)) for one in (before, after)]
    except UnreadableGroups:
        return False
    return groups[0].keys() == groups[1].keys() and all(ranks in ((), (0, 1)) for ranks in groups[1].values())


_ORDER = Alike("it orders records, and another number may leave the order")
ALIKE: Mapping[str, Mapping[str, Alike]] = {
    "recorder": {
        "entries.*.record_id": _ORDER,
        "entries.*.profiling_name": Alike("the library", _same_call),
        **dict.fromkeys(
            ("entries.*.input_sizes.*", "entries.*.output_sizes.*"), Alike("as many elements", _same_shape)
        ),
    },
    **{
        one: {f"traceEvents.{kind}.{name}": _ORDER for kind in ("cpu_op", "cuda_runtime") for name in ("ts", "dur")}
        for one in ("kineto", "NCCL")
    },
    "host": {
        "nodes.*.id": _ORDER,
        "nodes.*.ctrl_deps": _ORDER,
        "nodes.*.inputs.values.*": Alike("as below, or process groups without what calls say, too", _same_json),
        **dict.fromkeys(
            ("nodes.*.outputs", "nodes.*.outputs.values.*"), Alike("tensors, however deep they are", _same_leaves)
        ),
        **dict.fromkeys(
            (f"nodes.*.attrs.{name}" for name in ("rf_id", "tid", *_OF_OPERATOR)),
            Alike("another attribute, which says what the call says, too", _said_again),
        ),
    },
    "KVBench": {
        "traffic_patterns.*.matrix_file": Alike("the folder is one of another machine", _same_file),
        "word 3": Alike("a size without a unit is in bytes", lambda before, after: after == before.removesuffix("B")),
    },
    "ET": {
        "type": Alike("name and number of a type; loads, stores and compute are times", _same_type),
        "start_time_micros": Alike("it tells which operator is within another one", _still_within),
        "attr.is_cpu_op": Alike("false is as absent, and another may stand twice", _false),
        "attr.pg_name": Alike("of two ranks it may be absent, and another may stand twice", _another),
        **dict.fromkeys(
            (f"attr.{name}.name" for name in ("in_split_sizes", "out_split_sizes", "root_rank")),
            Alike("another name of the same", _same_meaning),
        ),
        "inputs.values": Alike("of two ranks the only process group is that of all", _same_groups),
    },
}
ALIKE = {**ALIKE, "pickles": ALIKE["recorder"]}
"""Sample → field → which other values of it make no difference, though others do."""


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
    """A field, wherever it is in its list; an attribute and an event by what they are; a word by the one before it."""
    if isinstance(document, list):
        before = document[path[0] - 1] if path[0] else ""
        is_value = before.endswith(":") or ("INFO" in document and before[:1].isalpha())
        return before.rstrip(":") if is_value else f"word {path[0]}"
    words = []
    for key in path:
        holder, document = document, document[key]
        is_listed = isinstance(holder, list | tuple)
        words.append(_kind(words[-1], document) if is_listed else str(key))
    return ".".join(words)


def _kind(listed: str, one: Any) -> str:
    """What a value in a list is."""
    return str(one["name"] if listed in ("attrs", "attr") else one["cat"] if listed == "traceEvents" else "*")


def changed(value: Any) -> Any:
    if isinstance(value, bool) or value is None:
        return not value if isinstance(value, bool) else 1
    if isinstance(value, str) and value.endswith("]"):
        return value[:-1] + ", 7]"
    if isinstance(value, str) and value.isdigit():
        return str(int(value) * 2 + 1)
    return value * 2 + 1 if isinstance(value, int | float) else f"{value}7"


def write_documents(folder: Path, sample: str, documents: Documents) -> None:
    """Write a recording as its tool does.

    Raises:
        ParseError: an .et file cannot say it.
    """
    for name, those in documents.items():
        WRITERS.get(sample, write_json)(folder / name, those)


def seen(folder: Path, sample: str, *, is_converted: bool = False) -> object:
    """All that comes of a recording: what `convert` writes of it, and what is counted; of an .et file what is played.

    Args:
        is_converted: check what was written, as `check` does.

    Raises:
        InputError: it is refused.
        AssertionError: `check` refuses what `convert` wrote.
    """
    if SAMPLES[sample][0] == CHAKRA:
        job = load_from_files(Trace(path=str(folder)))
        return repr(job.workload), [dict(one.attribute_names) for one in job.loaded.traces]
    trace = import_trace(importer_named(SAMPLES[sample][0]), folder)
    with TemporaryDirectory(dir=folder.parent) as made:
        convert(trace, Path(made) / "t", is_checked=is_converted)
        files = {path.name: path.read_bytes() for path in Path(made, "t").iterdir() if path.name != REPORT_FILE}
    return files, trace.missing, [(fate, what, tally.count) for fate, what, tally in trace.losses]


def convert(trace: ImportedTrace, folder: Path, *, is_checked: bool = True) -> None:
    """Do with a trace what `convert` does, and then with what it wrote what `check` does.

    Args:
        folder: to write into.
        is_checked: prove what is written, and check it; of ranks that are not all there nothing can be proved.

    Raises:
        InputError: `convert` refuses it.
        AssertionError: `check` refuses what it wrote.
    """

    def prove(folder: Path) -> None:
        with named_as(trace.source, folder):
            prove_files(Trace(path=str(trace.source)), folder, len(trace.ranks), on_step=lambda _: None)

    is_checked = is_checked and not trace.missing
    write_imported(trace, folder, prove=prove if is_checked else None)
    if is_checked:
        try:
            load_from_files(Trace(path=str(folder)))
        except InputError as error:
            raise AssertionError(f"check refuses what convert wrote: {error}") from error


def with_one_changed(documents: Documents, file: str, number: int, path: tuple[Any, ...]) -> Documents:
    copied = deepcopy(dict(documents))
    at = copied[file][number] = json.loads(json.dumps(copied[file][number]))
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = changed(at[path[-1]])
    return copied


@cache
def recording(sample: str) -> Documents:
    """The undamaged one."""
    return SAMPLES[sample][1]()


def outcome(sample: str, documents: Documents) -> object:
    """All that comes of a recording; "refused"."""
    with TemporaryDirectory() as folder:
        try:
            write_documents(Path(folder), sample, documents)
            return seen(Path(folder), sample)
        except (ParseError, InputError):
            return "refused"


@cache
def effective_places(sample: str) -> frozenset[Place]:
    """The values of a recording that make a difference."""
    documents = recording(sample)
    before = outcome(sample, documents)
    assert before != "refused"
    return frozenset(
        (file, number, path)
        for file, those in documents.items()
        for number, document in enumerate(those)
        for path in fields(document)
        if outcome(sample, with_one_changed(documents, file, number, path)) != before
    )
