"""Small files in the formats that are imported, in the exact shape in which their tools write them."""

import json
import pickle
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from emulator.annexes.importers.importing import find_importer, import_trace, importer_named
from emulator.annexes.importers.model import Fate, ImportedTrace

MIB = 1 << 20
RANKS = 4
PAIRS = ((0, 1), (2, 3))


# --- PyTorch Flight Recorder ----------------------------------------------------------------------------------------


def recorder_entry(
    number: int, name: str, shape: Sequence[int], *, group: str = "0", seq: int, at_us: int, **facts: Any
) -> dict[str, Any]:
    """A call of a tensor of floats; `facts` replace or add keys."""
    is_message = name.startswith(("send", "recv"))
    entry = {
        "record_id": number,
        "pg_id": int(group),
        "process_group": (group, "default_pg" if group == "0" else "undefined"),
        "collective_seq_id": 0 if is_message else seq,
        "p2p_seq_id": seq if is_message else 0,
        "op_id": number + 1,
        "profiling_name": f"nccl:{name}",
        "time_created_ns": 1_700_000_000_000_000_000 + at_us * 1000,
        "input_sizes": [list(shape)] if shape else [],
        "input_dtypes": ["Float"] if shape else [],
        "output_sizes": [list(shape)] if shape else [],
        "output_dtypes": ["Float"] if shape else [],
        "state": "completed",
        "time_discovered_started_ns": None,
        "time_discovered_completed_ns": None,
        "retired": True,
        "timeout_ms": 600000,
        "is_p2p": is_message,
        "frames": [{"name": "step", "filename": "train.py", "line": 7}],
    }
    return entry | facts


def write_recorder_dumps(folder: Path) -> None:
    """What Flight Recorder writes of a broadcast between two ranks, whose root it does not know."""
    folder.mkdir()
    groups = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}}
    entries = [recorder_entry(0, "broadcast", [1000], seq=1, at_us=10)]
    dump = {"version": "2.10", "pg_config": groups, "entries": entries}
    for rank in range(2):
        (folder / f"nccl_trace_rank_{rank}").write_bytes(pickle.dumps(dump, protocol=2))


def recorder_dump(rank: int) -> dict[str, Any]:
    """A job of four ranks: all-reduce of all, all-gather in pairs, a message in each pair, reduce-scatter of all."""
    group, at = str(1 + rank // 2), rank % 2
    message = "send 0->1" if at == 0 else "recv 1<-0"
    done = 1_700_000_000_000_000_000 + 1_500_000
    entries = [
        recorder_entry(0, "all_reduce", [1000], seq=1, at_us=1000, time_discovered_completed_ns=done, duration_ms=0.25),
        recorder_entry(1, "_all_gather_base", [64], group=group, seq=1, at_us=2000, output_sizes=[[128]]),
        recorder_entry(2, message, [32, 2], group=group, seq=1, at_us=2100),
        recorder_entry(3, "_reduce_scatter_base", [4096], seq=2, at_us=3000, output_sizes=[[1024]]),
        recorder_entry(4, "coalesced", [], seq=2, at_us=3100),
    ]
    groups = {
        "0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3]"},
        group: {"name": group, "desc": "undefined", "ranks": str(list(PAIRS[rank // 2]))},
    }
    return {"version": "2.10", "pg_config": groups, "comm_lib_version": "2.27.3", "pg_status": {}, "entries": entries}


def write_recorder_pickles(folder: Path) -> None:
    """One pickle a rank, as torch.distributed writes them."""
    for rank in range(RANKS):
        (folder / f"nccl_trace_rank_{rank}").write_bytes(pickle.dumps(recorder_dump(rank), protocol=2))


def write_recorder_json(folder: Path) -> None:
    """One JSON document a rank: unknown times are 0 there."""
    for rank in range(RANKS):
        dump = recorder_dump(rank)
        for entry in dump["entries"]:
            entry["time_discovered_completed_ns"] = entry["time_discovered_completed_ns"] or 0
        (folder / f"nccl_trace_rank_{rank}.json").write_text(json.dumps(dump, sort_keys=True))


# --- NCCL_DEBUG=INFO ------------------------------------------------------------------------------------------------


def log_prefix(rank: int) -> str:
    """Host, process, thread and device, as NCCL begins a line."""
    return f"node{rank // 2}:{100 + rank}:{200 + rank} [{rank % 2}] NCCL INFO "


def log_call(
    rank: int, name: str, op: int, count: int, *, comm: str, ranks: int, root: int = 0, dtype: int = 7, stream: str = ""
) -> str:
    """The line of a call."""
    return (
        f"{log_prefix(rank)}{name}: opCount {op:x} sendbuff 0x7f{rank}000 recvbuff 0x7f{rank}800 count {count} "
        f"datatype {dtype} op 0 root {root} comm {comm} [nranks={ranks}] stream {stream or f'0x55{rank}'}"
    )


def log_lines(rank: int) -> list[str]:
    """A rank of four: the world, a communicator split off it for each pair, calls in both."""
    world, pair = f"0x5555{rank}0", f"0x6666{rank}0"
    at = rank % 2
    init = (
        f"{log_prefix(rank)}ncclCommInitRank comm {world} rank {rank} nranks 4 cudaDev {at} nvmlDev {at} busId 1a000 "
    )
    split = f"{log_prefix(rank)}ncclCommSplit comm {pair} rank {at} nranks 2 cudaDev {at} nvmlDev {at} busId 1a000 "
    return [
        f"{log_prefix(rank)}NCCL version 2.27.3+cuda12.8",
        f"{init}commId 0xdcafe - Init COMPLETE",
        f"{split}parent {world} childCount 1 color {rank // 2} key {rank} - Init COMPLETE",
        log_call(rank, "AllReduce", 0, MIB, comm=world, ranks=4),
        log_call(rank, "AllGather", 0, 1024, comm=pair, ranks=2),
        log_call(rank, "ReduceScatter", 1, 4096, comm=world, ranks=4, dtype=9),
        log_call(rank, "Broadcast", 2, 100, comm=world, ranks=4, root=2),
        log_call(rank, "Send", 1, 77, comm=pair, ranks=2, root=1 - at),
        log_call(rank, "Recv", 1, 77, comm=pair, ranks=2, root=1 - at),
        log_call(rank, "AlltoAll", 3, 512, comm=world, ranks=4),
    ]


def write_nccl_log(folder: Path) -> None:
    """One log with the lines of all ranks mixed."""
    lines = [line for together in zip(*map(log_lines, range(RANKS)), strict=True) for line in together]
    (folder / "job.log").write_text("\n".join(["some other output", *lines]) + "\n")


# --- NCCL Inspector -------------------------------------------------------------------------------------------------


def inspector_record(rank: int, comm: str, at: int, size: int, perf: Mapping[str, Any]) -> dict[str, Any]:
    """A record, with the times of a verbose one."""
    kind = "p2p" if "p2p" in perf else "coll"
    header = {"id": comm, "comm_name": "unknown", "rank": at, "n_ranks": size, "nnodes": 1}
    metadata = {
        "inspector_output_format_version": "v4.0",
        "git_rev": "",
        "rec_mechanism": "nccl_profiler_interface",
        "dump_timestamp_us": 1748030377748202,
        "hostname": "node0",
        "pid": 100 + rank,
    }
    return {"header": header, "metadata": metadata, f"{kind}_perf": perf}


def inspector_call(name: str, number: int, size: int, time_us: int, *, start_us: int = 0) -> dict[str, Any]:
    """What a record says of a collective."""
    perf: dict[str, Any] = {
        "coll": name,
        "coll_sn": number,
        "coll_msg_size_bytes": size,
        "coll_exec_time_us": time_us,
        "coll_timing_source": "kernel_gpu",
        "coll_algobw_gbs": 1.5,
        "coll_busbw_gbs": 2.5,
    }
    if start_us:
        perf["event_trace_ts"] = {"coll_start_ts": start_us, "coll_stop_ts": start_us + 5, "kernel_events": []}
    return perf


def inspector_message(name: str, number: int, peer: int, size: int) -> dict[str, Any]:
    """What a record says of a send or receive."""
    return {
        "p2p": name,
        "p2p_sn": number,
        "p2p_peer": peer,
        "p2p_msg_size_bytes": size,
        "p2p_exec_time_us": 9,
        "p2p_timing_source": "kernel_gpu",
        "p2p_algobw_gbs": 1.0,
        "p2p_busbw_gbs": 1.0,
    }


def inspector_records(rank: int, *, verbose: bool = False) -> list[dict[str, Any]]:
    """A rank of four: collectives of the world and of a pair, and messages in the pair."""
    pair, at = f"0xbeef{rank // 2}", rank % 2
    start = 1_748_030_000_000_000 if verbose else 0
    return [
        inspector_record(rank, "0xfeed", rank, 4, inspector_call("AllReduce", 0, 4 * MIB, 900, start_us=start)),
        inspector_record(
            rank, pair, at, 2, inspector_call("AllGather", 0, 65536, 50, start_us=start + 2000 if start else 0)
        ),
        *(
            []
            if verbose
            else [
                inspector_record(rank, pair, at, 2, inspector_message("Send", 1, 1 - at, 32768)),
                inspector_record(rank, pair, at, 2, inspector_message("Recv", 2, 1 - at, 32768)),
            ]
        ),
        inspector_record(
            rank,
            "0xfeed",
            rank,
            4,
            inspector_call("ReduceScatter", 0, 16384, 70, start_us=start + 3000 if start else 0),
        ),
    ]


def write_inspector(folder: Path, *, verbose: bool = False) -> None:
    """A log for each process."""
    for rank in range(RANKS):
        lines = [json.dumps(record) for record in inspector_records(rank, verbose=verbose)]
        (folder / f"node0-pid{100 + rank}.log").write_text("\n".join(lines) + "\n")


# --- AICB -----------------------------------------------------------------------------------------------------------

AICB_HEADER = (
    "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 2 ep: 2 pp: 1 vpp: 8 ga: 1 all_gpus: 8 checkpoints: 0 "
    "checkpoint_initiates: 0 pp_comm: 0"
)
AICB_LAYERS = (
    "grad_gather -1 1 NONE 0 1 NONE 0 1 ALLGATHER 1048576 100",
    "grad_param_comm -1 1 NONE 0 1 NONE 0 1 REDUCESCATTER 2097152 100",
    "moe_grad_norm1 -1 1 NONE 0 1 NONE 0 1 ALLGATHER_DP_EP 4096 100",
    "embedding_layer -1 556000 ALLREDUCE 65536 1 NONE 0 20000 NONE 0 100",
    "mlp_moelayer -1 1 ALLTOALL_EP 32768 1 ALLTOALL_EP 65536 1 NONE 0 100",
    "attention_column -1 150000 ALLGATHER 50001 75000 REDUCESCATTER 50000 75000 NONE 0 100",
)


def write_aicb(folder: Path) -> None:
    """A workload for eight ranks: tensor 2, expert 2, data 4."""
    layers = [line.replace(" ", "\t") for line in AICB_LAYERS]
    (folder / "workload.txt").write_text("\n".join([AICB_HEADER, str(len(layers)), *layers]) + "\n")


def write_aicb_micro(folder: Path) -> None:
    """A micro benchmark, which does not say for how many ranks."""
    layers = [f"micro_test\t-1\t1\tNONE\t0\t1\tNONE\t0\t1\tALLREDUCE\t{4096 << at}\t1" for at in range(3)]
    (folder / "micro.txt").write_text("\n".join(["MICRO", "3", *layers]) + "\n")


# --- KVBench --------------------------------------------------------------------------------------------------------

KVBENCH_CONFIG = """traffic_patterns:
- matrix_file: /elsewhere/matrices/matrix_0.txt
  metadata:
    isl: 38328
  sleep_before_launch_sec: 0.0005
- matrix_file: /elsewhere/matrices/matrix_1.txt
  metadata:
    isl: 25034
  sleep_after_launch_sec: 0.00025
"""
KVBENCH_MATRICES = ("0 0 1M 1M\n0 0 1M 1M\n0 0 0 5K\n0 0 0 5K\n", "0 0 2.5K 0\n0 0 0 100B\n0 0 0 0\n0 7 0 0\n")


def write_kvbench(folder: Path) -> None:
    """Two patterns of four ranks."""
    (folder / "metadata.yaml").write_text(KVBENCH_CONFIG)
    for number, matrix in enumerate(KVBENCH_MATRICES):
        (folder / f"matrix_{number}.txt").write_text(matrix)


WRITERS: Mapping[str, tuple[str, Callable[[Path], None]]] = {
    "recorder pickles": ("flight-recorder", write_recorder_pickles),
    "recorder JSON": ("flight-recorder", write_recorder_json),
    "log": ("nccl-log", write_nccl_log),
    "inspector": ("nccl-inspector", write_inspector),
    "AICB": ("aicb", write_aicb),
    "KVBench": ("kvbench", write_kvbench),
}
"""Sample → the importer that reads it, and what writes it."""


def write_sample(name: str, folder: Path) -> str:
    """Write a sample into a new folder; returns the name of its importer."""
    folder.mkdir()
    importer, write = WRITERS[name]
    write(folder)
    return importer


def imported(name: str, source: Path, *, ranks: int | None = None) -> ImportedTrace:
    """A source as the importer of this name reads it; its ranks agree."""
    return import_trace(importer_named(name), source, ranks=ranks)


def counted(trace: ImportedTrace, fate: Fate) -> dict[str, int]:
    """What has a fate, and how often."""
    return {what: tally.count for one, what, tally in trace.losses if one is fate}


def recognised(source: Path) -> str | None:
    """The name of the importer that a source has by its content."""
    importer = find_importer(source)
    return None if importer is None else importer.name
