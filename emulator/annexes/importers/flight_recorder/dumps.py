"""Dumps of PyTorch's Flight Recorder, pickle or JSON, as typed values.

Source: pytorch/pytorch, torch/csrc/distributed/c10d/FlightRecorderDetail.hpp at cb41e3a and
torch/distributed/flight_recorder/components at 2a80227 (file names: a prefix and the rank); a dump of PyTorch 2.13.0.
"""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from emulator.annexes.importers.flight_recorder.plain_pickle import PickleProblem, load_plain
from emulator.annexes.importers.text_files import read_whole
from emulator.errors import TraceError

_PICKLE = re.compile(rb"^\x80[\x02-\x05]")
_JSON = re.compile(rb"^\s*\{")
_ENTRY = re.compile(rb'"(profiling_name|pg_config|nccl_comm_state)"\s*:')
_RANK_AT_END = re.compile(r"(\d{1,9})(\.(json|pkl|pickle))?(\.(gz|zst))?$")


class Entry(msgspec.Struct):
    """A call.

    Attributes:
        process_group: name and description.
        collective_seq_id, p2p_seq_id: number in the process group.
        profiling_name: `nccl:all_reduce`, `nccl:send 0->1`.
        input_sizes, output_sizes: shapes of tensors; input_dtypes, output_dtypes: their types.
        time_discovered_completed_ns: when the watchdog saw that it was done; None or 0: it did not.
        retired: the watchdog no longer looks after it.
    """

    process_group: tuple[str, str]
    profiling_name: str
    collective_seq_id: int
    p2p_seq_id: int
    time_created_ns: int
    input_sizes: list[list[int]]
    output_sizes: list[list[int]]
    input_dtypes: list[str] = []
    output_dtypes: list[str] = []
    record_id: int = 0
    state: str = ""
    retired: bool = False
    duration_ms: float | None = None
    time_discovered_completed_ns: int | None = None


class _DumpGroup(msgspec.Struct):
    ranks: str = ""
    desc: str = ""


class _Dump(msgspec.Struct):
    version: str
    entries: list[Entry] = []
    pg_config: dict[str, _DumpGroup] = {}


class Dump(msgspec.Struct):
    """A dump of a process.

    Attributes:
        rank: in the name of the file, which ends with it; None: it does not.
        groups: process group → world ranks; those that are not recorded are left out.
        world_size: ranks of the default process group; 0: not recorded.
    """

    name: str
    rank: int | None
    entries: list[Entry]
    groups: dict[str, tuple[int, ...]]
    world_size: int

    def where(self, entry: Entry) -> str:
        """An entry as errors name it."""
        return f"{self.name}, record {entry.record_id}"


def is_flight_recorder(head: bytes) -> bool:
    """Whether a file that begins so is a dump of the Flight Recorder."""
    if _PICKLE.search(head):
        return b"pg_config" in head or b"profiling_name" in head
    return bool(_JSON.search(head) and _ENTRY.search(head) and b'"traceEvents"' not in head)


def read_dump(path: Path) -> Dump:
    """Read a dump.

    Raises:
        TraceError: it cannot be read, or holds something else than plain values; the message has the place.
    """
    decoded = _decoded(path, read_whole(path))
    groups: dict[str, tuple[int, ...]] = {}
    world_size = 0
    for name, group in decoded.pg_config.items():
        ranks = _ranks(path, name, group.ranks)
        if ranks:
            groups[name] = ranks
            if group.desc == "default_pg":
                world_size = len(ranks)
    found = _RANK_AT_END.search(path.name)
    return Dump(str(path), int(found[1]) if found else None, decoded.entries, groups, world_size)


def _decoded(path: Path, data: bytes) -> _Dump:
    try:
        if _PICKLE.search(data):
            return msgspec.convert(load_plain(data), _Dump)
        return msgspec.json.decode(data, type=_Dump)
    except PickleProblem as error:
        problem = f"cannot be read as a dump of the Flight Recorder: {error.problem}"
        raise TraceError(problem, path=path, offset=error.offset) from None
    except (msgspec.MsgspecError, ValueError, ArithmeticError, RecursionError) as error:
        raise TraceError(f"cannot be read as a dump of the Flight Recorder: {error}", path=path) from error


def _ranks(path: Path, name: str, text: str) -> tuple[int, ...]:
    """`[0, 1, 2]` as ranks."""
    try:
        ranks = msgspec.json.decode(text or "[]", type=list[int])
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        problem = f"the ranks of process group {name[:40]!r} are {text[:40]!r}, not a list of numbers"
        raise TraceError(problem, path=path) from error
    if len(set(ranks)) != len(ranks) or any(not 0 <= rank < 1 << 20 for rank in ranks):
        raise TraceError(f"process group {name[:40]!r} has the ranks {text[:40]}; each is there once", path=path)
    return tuple(ranks)
