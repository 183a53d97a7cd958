"""Names of collectives and element types in PyTorch's traces.

Source: PyTorch, torch/csrc/distributed/c10d (ProcessGroupNCCL.cpp, ProcessGroupGloo.cpp; Ops.cpp).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from emulator.trace.meaning.model import CommKind

LARGEST_WORLD = 1 << 20
"""Ranks of a job; more is a damaged file."""
LATEST_US = 1e17
"""Times after the year 5000, in µs, are a damaged file."""
CALL = "record_param_comms"
"""Name of the records that ProcessGroupNCCL makes of its calls."""
DISPATCHED = "c10d::"
"""What the names of dispatched operators begin with."""
GROUP_NOTE = re.compile(r"(?:^|\s)pg=(?P<group>[^\s,;#]+)")
"""How a user names the process group of a call that does not record it: `with record_function("pg=tp"): …`."""
LIBRARY = re.compile(r"(?:nccl|gloo|mpi|ucc|xccl|hccl):(?P<call>\w+)(?: (?P<from>\d+)(?P<way>->|<-)(?P<to>\d+))?")
"""Names of a library's own records."""
WITHOUT_TRAFFIC = frozenset(
    {
        *("wait", "init", "startcoalescing", "endcoalescing", "coalesced", "abort", "shutdown", "groupstart"),
        *("groupend", "pgconfiginfo"),
    }
)
"""Calls that move nothing."""
_KINDS: Mapping[str, CommKind] = {
    "allreduce": CommKind.ALL_REDUCE,
    "reduce": CommKind.REDUCE,
    "allgather": CommKind.ALL_GATHER,
    "gather": CommKind.GATHER,
    "scatter": CommKind.SCATTER,
    "broadcast": CommKind.BROADCAST,
    "alltoall": CommKind.ALL_TO_ALL,
    "reducescatter": CommKind.REDUCE_SCATTER,
    "barrier": CommKind.BARRIER,
    "monitoredbarrier": CommKind.BARRIER,
    "send": CommKind.SEND,
    "recv": CommKind.RECV,
    "recvanysource": CommKind.RECV,
}
_VARIANTS = ("intotensorcoalesced", "tensorcoalesced", "coalesced", "base", "oop", "single", "sparse", "v")
_ELEMENT_BYTES: Mapping[str, int] = {
    **dict.fromkeys(("byte", "char", "bool", "unsignedchar", "signedchar", "uint8", "int8"), 1),
    **dict.fromkeys(("half", "bfloat16", "short", "shortint", "int16", "uint16", "unsignedshort", "float16"), 2),
    **dict.fromkeys(("float", "int", "float32", "int32", "uint32", "unsignedint", "complexhalf"), 4),
    **dict.fromkeys(("double", "long", "longint", "float64", "int64", "uint64", "unsignedlong", "complexfloat"), 8),
    **dict.fromkeys(("complexdouble", "c10complexdouble"), 16),
}


def squeezed(name: str) -> str:
    """A name in lower case, without underscores: `_reduce_scatter_base_` → `reducescatterbase`."""
    return name.lower().replace("_", "")


def collective_kind(name: str) -> CommKind | None:
    """What a call does: `allreduce`, `_allgather_base`, `all_to_allv`, `c10d::broadcast_`; None: unknown."""
    word = squeezed(name.removeprefix(DISPATCHED).partition(" ")[0])
    if word in _KINDS:
        return _KINDS[word]
    for variant in _VARIANTS:
        if word.endswith(variant) and word.removesuffix(variant) in _KINDS:
            return _KINDS[word.removesuffix(variant)]
    return None


def is_from_any(name: str) -> bool:
    """Whether a call receives from whichever rank sends."""
    return "recvanysource" in squeezed(name)


def element_bytes(dtype: str) -> int | None:
    """Bytes of an element: `Float`, `BFloat16`, `c10::Half`, `long int`, `Float8_e4m3fn`; None: unknown type."""
    word = squeezed(dtype).replace("c10::", "").replace(" ", "")
    if word.startswith("float8"):
        return 1
    return _ELEMENT_BYTES.get(word)


_OTHER_LIBRARIES = re.compile(
    r"deep_?ep|nvshmem|msccl|symm_?mem|multimem|cross_device_reduce|all_?reduce|all_?gather|reduce_?scatter|all_?to_?all",
    re.IGNORECASE,
)
"""In the names of kernels of DeepEP, NVSHMEM, MSCCL++, symmetric memory, vLLM, TensorRT-LLM and the like."""


def is_other_communication(name: str) -> bool:
    """Whether a task of the device that is none of NCCL or RCCL looks like communication all the same."""
    return _OTHER_LIBRARIES.search(name) is not None


def is_library_kernel(name: str) -> bool:
    """Whether a task of the device is one of NCCL or RCCL."""
    lower = name.lower()
    return "nccl" in lower or "rccl" in lower


@dataclass(frozen=True, slots=True)
class Arguments:
    """Positions of an operator's arguments; -1: it has none such."""

    inputs: int
    outputs: int
    root: int = -1
    peer: int = -1
    tag: int = -1
    send_splits: int = -1
    recv_splits: int = -1


_IN_PLACE = Arguments(inputs=0, outputs=0)
_OUT_IN = Arguments(inputs=1, outputs=0)
ARGUMENTS: Mapping[str, Arguments] = {
    "allreduce": _IN_PLACE,
    "allreducecoalesced": _IN_PLACE,
    "broadcast": Arguments(inputs=0, outputs=0, root=2),
    "reduce": Arguments(inputs=0, outputs=0, root=3),
    "allgather": _OUT_IN,
    "allgatherbase": _OUT_IN,
    "allgathercoalesced": _OUT_IN,
    "allgatherintotensorcoalesced": _OUT_IN,
    "gather": Arguments(inputs=1, outputs=0, root=3),
    "scatter": Arguments(inputs=1, outputs=0, root=3),
    "reducescatter": _OUT_IN,
    "reducescatterbase": _OUT_IN,
    "reducescattertensorcoalesced": _OUT_IN,
    "alltoallbase": Arguments(inputs=1, outputs=0, recv_splits=3, send_splits=4),
    "alltoall": _OUT_IN,
    "send": Arguments(inputs=0, outputs=-1, peer=2, tag=3),
    "recv": Arguments(inputs=-1, outputs=0, peer=2, tag=3),
    "recvanysource": Arguments(inputs=-1, outputs=0, tag=2),
    "barrier": Arguments(inputs=-1, outputs=-1),
    "monitoredbarrier": Arguments(inputs=-1, outputs=-1),
}
"""Arguments of the operators of c10d by name, without `c10d::` and underscores."""
