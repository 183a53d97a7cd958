"""PyTorch's traces as their tools write them, small and made by hand: host traces of two schemas, and Kineto's."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

CUDA, MAIN, AUTOGRAD, COMPUTE_STREAM, NCCL_STREAM = 0, 100, 101, 7, 40


def tensor(storage: int, elements: int, element_bytes: int = 4) -> list[Any]:
    """A tensor as host traces have it."""
    return [storage + 1000, storage, 0, elements, element_bytes, "cuda:0"]


class HostDocument:
    """A host trace, schema 1.1.1 or the flat 1.0.1."""

    def __init__(self, *, pid: int = 0, is_flat: bool = False) -> None:
        self.pid, self.is_flat = pid, is_flat
        self.nodes: list[dict[str, Any]] = []

    def node(
        self,
        name: str,
        inputs: Sequence[Any] = (),
        outputs: Sequence[Any] = (),
        *,
        parent: int = 1,
        tid: int = 1,
        **attributes: Any,
    ) -> int:
        """Add a record; its id."""
        number = len(self.nodes) + 2
        common = {"rf_id": number + 500, "fw_parent": 0, "seq_id": -1, "scope": 0, "tid": tid, "fw_tid": 0}
        node: dict[str, Any] = {"id": number, "name": name}
        if self.is_flat:
            node |= {"parent": parent, "inputs": list(inputs), "outputs": list(outputs), "op_schema": "", **common}
            node |= {"input_shapes": [], "input_types": [], "output_shapes": [], "output_types": []}
        else:
            node["ctrl_deps"] = parent
            node["inputs"] = {"values": list(inputs), "shapes": [], "types": []}
            node["outputs"] = {"values": list(outputs), "shapes": [], "types": []}
            listed = {**common, "op_schema": "", **attributes}
            node["attrs"] = [{"name": name, "type": "", "value": value} for name, value in listed.items()]
        self.nodes.append(node)
        return number

    def groups(self, *entries: tuple[str, str, Sequence[int], int]) -> None:
        """The record of the process groups: name, description, ranks ([] for all), size."""
        listed = [
            {
                "pg_name": name,
                "pg_desc": description,
                "backend_config": "cuda:nccl",
                "ranks": list(ranks),
                "group_size": size,
            }
            for name, description, ranks, size in entries
        ]
        self.node("## process_group:init ##", [json.dumps(listed)])

    def document(self) -> dict[str, Any]:
        """As JSON values."""
        schema = "1.0.1" if self.is_flat else "1.1.1-chakra.0.0.4"
        return {"schema": schema, "pid": self.pid, "time": "", "start_ts": 1, "nodes": self.nodes, "finish_ts": 2}


class KinetoDocument:
    """A trace of Kineto; times in µs."""

    def __init__(
        self, *, rank: int | None = None, world_size: int = 0, pid: int = 9, groups: Sequence[dict[str, Any]] = ()
    ) -> None:
        self.pid = pid
        self.info = None if rank is None else {"backend": "nccl", "rank": rank, "world_size": world_size}
        if self.info is not None and groups:
            self.info["pg_config"] = list(groups)
        self.events: list[dict[str, Any]] = []

    def event(self, category: str, name: str, start: float, duration: float, *, tid: int = MAIN, **args: Any) -> None:
        """Add a complete event."""
        said = {key.replace("_", " "): value for key, value in args.items()}
        self.events.append(
            {
                "ph": "X",
                "cat": category,
                "name": name,
                "pid": self.pid,
                "tid": tid,
                "ts": start,
                "dur": duration,
                "args": said,
            }
        )

    def operator(self, name: str, start: float, duration: float, *, tid: int = MAIN, **args: Any) -> None:
        """An operator on a CPU thread."""
        self.event("cpu_op", name, start, duration, tid=tid, **args)

    def note(self, name: str, start: float, duration: float, *, tid: int = MAIN, **args: Any) -> None:
        """An annotation on a CPU thread."""
        self.event("user_annotation", name, start, duration, tid=tid, **args)

    def kernel(
        self,
        name: str,
        start: float,
        duration: float,
        *,
        launch: float | None = None,
        tid: int = MAIN,
        stream: int = COMPUTE_STREAM,
        **args: Any,
    ) -> None:
        """A kernel, and the call of the runtime that launched it."""
        number = len(self.events) + 5000
        if launch is not None:
            self.event("cuda_runtime", "cudaLaunchKernel", launch, 2, tid=tid, correlation=number)
        self.event("kernel", name, start, duration, tid=stream, stream=stream, device=CUDA, correlation=number, **args)

    def runtime(self, name: str, start: float, duration: float, *, tid: int = MAIN) -> None:
        """Another call of the runtime."""
        self.event("cuda_runtime", name, start, duration, tid=tid, correlation=len(self.events) + 5000)

    def collective(
        self,
        name: str,
        elements: int,
        start: float,
        kernel: tuple[float, float],
        *,
        tid: int = MAIN,
        group: str = "0",
        **args: Any,
    ) -> None:
        """A call of NCCL as newer versions of PyTorch record it, and its kernel (start, duration)."""
        said = {"Collective_name": name, "In_msg_nelems": elements, "Out_msg_nelems": elements, "dtype": "Float"}
        said |= {"Process_Group_Name": group, **args}
        self.operator(f"c10d::{name}_", start, 20, tid=tid)
        self.operator("record_param_comms", start + 1, 18, tid=tid, **said)
        self.kernel("ncclDevKernel_Ring", *kernel, launch=start + 10, tid=tid, stream=NCCL_STREAM)

    def document(self) -> dict[str, Any]:
        """As JSON values."""
        info = {} if self.info is None else {"distributedInfo": self.info}
        return {"schemaVersion": 1, "deviceProperties": [], **info, "traceEvents": self.events, "traceName": "x"}


def write(document: HostDocument | KinetoDocument | dict[str, Any], path: Path) -> Path:
    """Write a document."""
    plain = document if isinstance(document, dict) else document.document()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(plain))
    return path


def data_parallel_rank(rank: int, ranks: int) -> KinetoDocument:
    """A step of one rank: forward and backward on two threads and a stream, two all-reduces, a wait for them."""
    config = [{"pg_name": "0", "pg_desc": "default_pg", "ranks": list(range(ranks))}]
    trace = KinetoDocument(rank=rank, world_size=ranks, pid=1000 + rank, groups=config)
    trace.note("ProfilerStep#1", 0, 1000)
    trace.operator("aten::linear", 10, 40)
    trace.kernel("gemm", 40, 100, launch=30)
    trace.operator("aten::mm_backward", 70, 30, tid=AUTOGRAD)
    trace.kernel("gemm_backward", 150, 100, launch=80, tid=AUTOGRAD)
    trace.collective("allreduce", 1 << 18, 110, (260, 200), tid=AUTOGRAD)
    trace.collective("allreduce", 1 << 16, 140, (470, 90), tid=AUTOGRAD)
    trace.runtime("cudaStreamWaitEvent", 170, 1, tid=AUTOGRAD)
    trace.operator("aten::sgd", 200, 20)
    trace.kernel("sgd", 570, 30, launch=205)
    trace.runtime("cudaDeviceSynchronize", 300, 310)
    return trace


def data_parallel_host(rank: int) -> HostDocument:
    """What the host recorded of that step."""
    trace = HostDocument(pid=1000 + rank)
    trace.groups(("0", "default_pg", [], 2))
    for elements, storage in ((1 << 18, 5), (1 << 16, 6)):
        value = [tensor(storage, elements)]
        call = trace.node("c10d::allreduce_", [value, "<Object>", "<Object>", "<None>", False, -1], [value], tid=2)
        inputs = [value, 3, ["0", "default_pg"], rank, "allreduce", [], [], 0, 1, 2]
        trace.node("record_param_comms", inputs, [value], parent=call, tid=2)
    return trace


def flat_host(rank: int) -> HostDocument:
    """An uneven all-to-all and a message between two ranks in the oldest schema."""
    host = HostDocument(pid=rank + 1, is_flat=True)
    out, into = tensor(1, 30), tensor(2, 30)
    call = host.node("c10d::alltoall_base_", [into, out, "<Object>", [15, 15], [15, 15], False, -1])
    host.node("record_param_comms", [out, 7, 123456, rank, "all_to_allv", [15, 15], [15, 15]], [into], parent=call)
    host.node("c10d::send" if rank == 0 else "c10d::recv_", [[out], "<Object>", 1 - rank, 17])
    return host


def gloo_rank(rank: int) -> KinetoDocument:
    """Operators of c10d with the records of Gloo on other threads, of one of two ranks."""
    trace = KinetoDocument(rank=rank, world_size=2, pid=50 + rank)
    dims = {"Input_Dims": [[6], [6], [], [], []], "Input_type": ["float", "float", "", "ScalarList", "ScalarList"]}
    splits = ["[2, 4]", "[2, 4]"] if rank == 0 else ["[4, 2]", "[4, 2]"]
    trace.operator("c10d::alltoall_base_", 10, 5, **dims, Concrete_Inputs=["", "", "", *splits])
    trace.note("gloo:all_to_all", 12, 40, tid=300, Input_Dims=[[6]], Input_type=["float"])
    listed = {"Input_Dims": [[[64]], [], []], "Input_type": ["TensorList", "", "Scalar"]}
    trace.note("pg=default_pg", 59, 9)
    trace.operator("c10d::broadcast_", 60, 5, **listed, Concrete_Inputs=["", "", "1"])
    trace.note("gloo:broadcast", 62, 40, tid=300, Input_Dims=[[64]], Input_type=["c10::BFloat16"])
    trace.operator("aten::add", 110, 10)
    return trace
