"""A call of a collective library as PyTorch recorded it, and the operation that it is in Chakra's terms."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from emulator.annexes.importers.model import Fate, Losses, RecordedOperation
from emulator.errors import TraceError
from emulator.trace.meaning.meaning import MAX_SIZE_BYTES, ROOTED
from emulator.trace.meaning.model import CommKind

LARGEST_TAG = (1 << 31) - 1
"""Tags have 32 bits in Chakra."""


@dataclass(slots=True)
class Call:
    """What one record says of a call; None: it does not say.

    Attributes:
        name: of the collective, as recorded.
        where: file and record.
        sent_bytes, received_bytes: of all input and output tensors of this rank.
        sent_elements: of each input tensor, where the type of the elements is not recorded.
        group: name of the process group.
        handle: what tells unnamed process groups apart.
        group_size, ranks: of the process group.
        unread_ranks: what is recorded of the ranks, if it cannot be read.
        send_splits, recv_splits: as recorded: rows, elements or bytes; empty: even.
        is_short_of_splits: some are recorded and cannot be read.
        root, peer: rank within the group.
        peer_in_world: world rank of the peer.
        own_rank: of this process within the group.
        reads, writes: storages of the tensors.
        unread: names of what is recorded and cannot be read.
    """

    name: str
    where: str
    sent_bytes: int | None = None
    received_bytes: int | None = None
    sent_elements: tuple[int, ...] | None = None
    group: str | None = None
    handle: object = None
    group_size: int | None = None
    ranks: tuple[int, ...] | None = None
    unread_ranks: str | None = None
    send_splits: tuple[int, ...] | None = None
    recv_splits: tuple[int, ...] | None = None
    is_short_of_splits: bool | None = None
    root: int | None = None
    peer: int | None = None
    peer_in_world: int | None = None
    tag: int | None = None
    own_rank: int | None = None
    reads: frozenset[int] | None = None
    writes: frozenset[int] | None = None
    unread: frozenset[str] = frozenset()

    def number(self, said: Mapping[str, Any], name: str) -> int | None:
        """What a record says under a name; None: nothing, or, which is noted, no whole number."""
        value = said.get(name)
        if type(value) is int:
            return value
        if value not in (None, ""):
            self.unread |= {name}
        return None

    def set_sizes(self, said: Mapping[str, Any], *, sent: str, received: str) -> None:
        """Take the bytes of the tensors from their type (`dtype`) and the number of their elements."""
        elements = self.number(said, sent), self.number(said, received)
        width = element_bytes(str(said.get("dtype", "")))
        if width is None and (said.get("dtype") not in (None, "") or elements != (None, None)):
            self.unread |= {"dtype"}
        if width is not None and elements[0] is not None:
            self.sent_bytes = elements[0] * width
        if width is not None and elements[1] is not None:
            self.received_bytes = elements[1] * width

    def completed_by(self, other: Call) -> Call:
        """This call, with what another record of it says in addition."""
        merged = {one.name: getattr(self, one.name) for one in fields(self)}
        for name, value in merged.items():
            theirs = getattr(other, name)
            if value is None or (value in ((), frozenset()) and theirs):
                merged[name] = theirs
        return Call(**merged)

    @property
    def kind(self) -> CommKind | None:
        """None: not a collective that is known."""
        return collective_kind(self.name)


def operation_of(call: Call, losses: Losses) -> RecordedOperation | None:
    """The operation that a call is; None, and counted as dropped, if its size or its peer is unknown.

    Raises:
        TraceError: it has a number that no call can have.
    """
    kind = call.kind
    assert kind is not None
    _check(call)
    size = _size_bytes(call, kind)
    if size is None:
        losses.count(Fate.DROPPED, f"{kind.label} of unknown size", call.where)
        return None
    from_any = kind is CommKind.RECV and is_from_any(call.name)
    if not kind.is_collective and not from_any and max(_or_unknown(call.peer), _or_unknown(call.peer_in_world)) < 0:
        losses.count(Fate.DROPPED, f"{kind.label} whose peer is not recorded", call.where)
        return None
    if kind in ROOTED and _or_unknown(call.root) < 0:
        losses.guess_root(kind, call.where)
    for name in sorted(call.unread):
        losses.count(Fate.DROPPED, f"values of {name!r} that cannot be read: as if there were none", call.where)
    if call.unread_ranks and not call.ranks:
        if "..." in call.unread_ranks:
            losses.count(Fate.INFERRED, "process group whose list of ranks is shortened: by its name", call.where)
        else:
            losses.count(Fate.GUESSED, "process group whose list of ranks cannot be read: by its name", call.where)
    send, recv = _splits(call, size, losses) if kind is CommKind.ALL_TO_ALL else (None, None)
    are_open = kind is CommKind.ALL_TO_ALL and None in (call.send_splits, call.recv_splits)
    return RecordedOperation(
        where=call.where,
        name=call.name,
        kind=kind,
        size_bytes=size,
        group=call.group,
        ranks=call.ranks,
        group_size=call.group_size,
        send_splits=send,
        recv_splits=recv,
        open_splits="" if not are_open else "shortened in the record" if call.is_short_of_splits else "not recorded",
        root=_or_unknown(call.root),
        peer=_or_unknown(call.peer),
        peer_in_world=_or_unknown(call.peer_in_world),
        is_from_any=from_any,
        tag=call.tag or 0,
        reads=call.reads or frozenset(),
        writes=call.writes or frozenset(),
        handle=call.handle,
        input_bytes=call.sent_bytes,
        output_bytes=call.received_bytes,
    )


def _or_unknown(rank: int | None) -> int:
    return -1 if rank is None else rank


def _check(call: Call) -> None:
    sizes = {
        "size": (call.sent_bytes, call.received_bytes),
        "split": (call.send_splits or ()) + (call.recv_splits or ()),
    }
    small = {"root": (call.root,), "peer": (call.peer, call.peer_in_world), "tag": (call.tag,)}
    for what, values, least, most in (
        *((what, values, 0, MAX_SIZE_BYTES) for what, values in sizes.items()),
        *((what, values, -1, LARGEST_TAG) for what, values in small.items()),
        ("group size", (call.group_size,), 0, LARGEST_WORLD),
    ):
        for value in values:
            if value is not None and not least <= value <= most:
                raise TraceError(f"{call.where}: {what} {value} of a {call.name[:40]!r} is outside {least} to {most}")


def _size_bytes(call: Call, kind: CommKind) -> int | None:
    """Chakra's comm_size."""
    if kind is CommKind.BARRIER:
        return 0
    if kind is CommKind.SCATTER:  # only the root has an input; the others learn the size from it
        return call.sent_bytes or 0
    if kind is CommKind.RECV:
        return call.received_bytes if call.received_bytes is not None else call.sent_bytes
    if kind is CommKind.BROADCAST and call.sent_bytes is None:
        return call.received_bytes
    return call.sent_bytes


def _splits(call: Call, size: int, losses: Losses) -> tuple[tuple[int, ...] | None, tuple[int, ...] | None]:
    """Bytes to and from each member, None if they are even or not recorded."""
    if call.send_splits is None or call.recv_splits is None:
        sizes = (call.send_splits, size), (call.recv_splits, call.received_bytes)
        known = [None if total is None else scaled(splits, total) if splits else splits for splits, total in sizes]
        return known[0], known[1]
    if not call.send_splits and not call.recv_splits:
        return None, None
    received = call.received_bytes
    rows: int = sum(call.send_splits)
    if received is None and rows and call.recv_splits:
        received = size * sum(call.recv_splits) // rows
    members = len(call.send_splits or call.recv_splits)  # [] stands for equal parts
    send = scaled(call.send_splits or (1,) * members, size)
    recv = None if received is None else scaled(call.recv_splits or (1,) * members, received)
    if send is None or recv is None or len(send) != len(recv):
        losses.count(Fate.GUESSED, "splits of an all_to_all do not fit its tensors: even", call.where)
        return None, None
    return (None, None) if len({*send, *recv}) == 1 else (send, recv)


def scaled(splits: Sequence[int] | None, total_bytes: int) -> tuple[int, ...] | None:
    """Splits in rows or elements as bytes; None if there are none, or if they do not divide the bytes."""
    if not splits or min(splits) < 0:
        return None
    rows = sum(splits)
    if rows == 0:
        return tuple(splits) if total_bytes == 0 else None
    if total_bytes % rows:
        return None
    return tuple(one * (total_bytes // rows) for one in splits)


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


_LIBRARY_NAMES = (
    r"deep_?ep|(?:nv|roc)shmem|msccl|symm_?mem|multimem|userbuffers|cross_device_reduce|quick_?reduce|pplx|\bmori\b"
    r"|\bflux::|uccl"
)
"""In the names of what DeepEP, PPLX, MORI, UCCL, NVSHMEM, rocSHMEM, MSCCL++, symmetric memory, Flux, vLLM, Transformer
Engine, TensorRT-LLM and the like run."""
_COLLECTIVE_NAMES = r"all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|a2a"
_OTHER_KERNEL = re.compile(f"{_LIBRARY_NAMES}|{_COLLECTIVE_NAMES}", re.IGNORECASE)
_OTHER_OPERATOR = re.compile(
    rf"{_LIBRARY_NAMES}|^Fused(?:Dispatch|Combine)$|^\w+::.*(?:{_COLLECTIVE_NAMES})", re.IGNORECASE
)
"""The Fused ones are Megatron's, around DeepEP."""


def is_other_communication(name: str) -> bool:
    """Whether a task of the device that is none of NCCL or RCCL looks like communication all the same."""
    return _OTHER_KERNEL.search(name) is not None


def is_other_communication_operator(name: str) -> bool:
    """Whether an operator that is none of c10d looks like communication; it may call some of c10d."""
    return _OTHER_OPERATOR.search(name) is not None


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
