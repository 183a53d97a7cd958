"""Dumps of PyTorch's Flight Recorder, pickle or JSON, as typed values.

Source: pytorch/pytorch, torch/csrc/distributed/c10d/FlightRecorderDetail.hpp at cb41e3a and
torch/distributed/flight_recorder/components at 2a80227 (file names: a prefix and the rank); a dump of PyTorch 2.13.0.
"""

from __future__ import annotations

import pickletools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

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
    ranks: str | list[int] = ""
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


def _ranks(path: Path, name: str, said: str | list[int]) -> tuple[int, ...]:
    """`[0, 1, 2]` as ranks: as text, which PyTorch writes, or as a list, which tools make of it."""
    text = str(said or "[]")
    try:
        ranks = msgspec.json.decode(text, type=list[int])
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        problem = f"the ranks of process group {name[:40]!r} are {text[:40]!r}, not a list of numbers"
        raise TraceError(problem, path=path) from error
    if len(set(ranks)) != len(ranks) or any(not 0 <= rank < 1 << 20 for rank in ranks):
        raise TraceError(f"process group {name[:40]!r} has the ranks {text[:40]}; each is there once", path=path)
    return tuple(ranks)


MAX_MEMO = 10_000_000
VALUES_PER_BYTE = 20
"""Values that a pickle can unfold to by using the same one again, per byte; dumps with stack traces reach 5."""
FREE_VALUES = 1 << 20
MAX_DEPTH = 100
"""Containers within containers."""
_MARK = object()


class PickleProblem(ValueError):
    """A pickle that contains something other than plain values, or a corrupt one: what is wrong, and the offset."""

    def __init__(self, problem: str, offset: int) -> None:
        super().__init__(problem)
        self.problem, self.offset = problem, offset


def load_plain(data: bytes) -> Any:
    """The value in a pickle.

    Raises:
        PickleProblem: it contains something other than plain values, is corrupt, or unfolds to too many values.
    """
    return _Machine(data).run()


class _Machine:
    """The stack machine of the pickle protocol, without the opcodes that import or call."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._opcode_at = 0
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}
        self._weights: dict[int, int] = {}
        self._depths: dict[int, int] = {}
        self._held: list[Any] = []  # so that no id is used twice
        self._shared: set[int] = set()

    def run(self) -> Any:
        try:
            for opcode, argument, at in pickletools.genops(self._data):
                self._opcode_at = at or 0
                if opcode.name == "STOP":
                    break
                if opcode.name in _LITERALS:
                    self.push(argument)
                elif opcode.name in _STEPS:
                    _STEPS[opcode.name](self, argument)
                elif opcode.name not in _WITHOUT_EFFECT:
                    code = opcode.code.encode("latin-1")
                    raise self._problem(f"contains something other than plain values (opcode {code!r})")
        except PickleProblem:
            raise
        except (TypeError, ValueError, OverflowError) as error:
            raise self._problem(f"is corrupt, or ends too early: {error}") from error
        if len(self._stack) != 1:
            raise self._problem("ends with unused values")
        return self._pop()

    def _problem(self, what: str) -> PickleProblem:
        return PickleProblem(what, self._opcode_at)

    def _pop(self) -> Any:
        if not self._stack or self._stack[-1] is _MARK:
            raise self._problem("takes a value that is not there")
        return self._stack.pop()

    def _pop_mark(self) -> list[Any]:
        at = len(self._stack)
        while at and self._stack[at - 1] is not _MARK:
            at -= 1
        if not at:
            raise self._problem("has no mark")
        values = self._stack[at:]
        del self._stack[at - 1 :]
        return values

    def push(self, value: Any) -> None:
        self._stack.append(value)

    def push_container(self, value: Any, parts: list[Any]) -> None:
        self._held.append(value)
        self._weights[id(value)] = 1
        self._depths[id(value)] = 1
        self._account(value, parts)
        self._stack.append(value)

    def _account(self, container: Any, parts: list[Any]) -> None:
        """Count what a container unfolds to: a value that is used twice counts twice."""
        key = id(container)
        if key in self._shared:
            raise self._problem("changes a value that it has already used")
        self._weights[key] += sum(self._weights.get(id(part), 1) for part in parts)
        if self._weights[key] > FREE_VALUES + VALUES_PER_BYTE * len(self._data):
            raise self._problem("unfolds to more values than its size allows")
        self._depths[key] = max([self._depths[key], *(1 + self._depths.get(id(part), 0) for part in parts)])
        if self._depths[key] > MAX_DEPTH:
            raise self._problem("has values nested too deeply")

    def tuple_of(self, count: int | None) -> None:
        parts = self._pop_mark() if count is None else [self._pop() for _ in range(count)][::-1]
        self.push_container(tuple(parts), parts)

    def list_of_mark(self) -> None:
        parts = self._pop_mark()
        self.push_container(list(parts), parts)

    def dict_of_mark(self) -> None:
        parts = self._pop_mark()
        self.push_container({}, [])
        self._set_items(parts)

    def append(self, *, is_many: bool) -> None:
        parts = self._pop_mark() if is_many else [self._pop()]
        target = self._top(list)
        self._account(target, parts)
        target.extend(parts)

    def add_items(self) -> None:
        parts = self._pop_mark()
        target = self._top(set)
        self._account(target, parts)
        target.update(parts)

    def set_items(self, *, is_many: bool) -> None:
        self._set_items(self._pop_mark() if is_many else [self._pop(), self._pop()][::-1])

    def _set_items(self, parts: list[Any]) -> None:
        if len(parts) % 2:
            raise self._problem("has a key without a value")
        target = self._top(dict)
        self._account(target, parts)
        target.update(zip(parts[::2], parts[1::2], strict=True))

    def _top(self, kind: type) -> Any:
        if not self._stack or type(self._stack[-1]) is not kind:
            raise self._problem(f"adds to something that is no {kind.__name__}")
        return self._stack[-1]

    def put(self, number: int) -> None:
        if len(self._memo) >= MAX_MEMO:
            raise self._problem("keeps too many values")
        value = self._pop()
        self._memo[number] = value
        self.push(value)

    def get(self, number: int) -> None:
        if number not in self._memo:
            raise self._problem("uses a value that it has not kept")
        value = self._memo[number]
        if id(value) in self._weights:
            self._shared.add(id(value))
        self.push(value)

    def memoize(self) -> None:
        self.put(len(self._memo))

    def drop(self) -> None:
        if not self._stack:
            raise self._problem("takes a value that is not there")
        self._stack.pop()


_WITHOUT_EFFECT = frozenset({"PROTO", "FRAME"})
_LITERALS = frozenset(
    {
        *("INT", "LONG", "BININT", "BININT1", "BININT2", "LONG1", "LONG4", "BINFLOAT"),
        *("SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8", "SHORT_BINBYTES", "BINBYTES", "BINBYTES8"),
    }
)
"""Opcodes that stand for their argument."""
_STEPS: dict[str, Callable[[_Machine, Any], None]] = {
    "NONE": lambda one, _: one.push(None),
    "NEWTRUE": lambda one, _: one.push(True),
    "NEWFALSE": lambda one, _: one.push(False),
    "MARK": lambda one, _: one.push(_MARK),
    "POP": lambda one, _: one.drop(),
    "EMPTY_TUPLE": lambda one, _: one.push_container((), []),
    "EMPTY_LIST": lambda one, _: one.push_container([], []),
    "EMPTY_DICT": lambda one, _: one.push_container({}, []),
    "EMPTY_SET": lambda one, _: one.push_container(set(), []),
    "TUPLE": lambda one, _: one.tuple_of(None),
    "TUPLE1": lambda one, _: one.tuple_of(1),
    "TUPLE2": lambda one, _: one.tuple_of(2),
    "TUPLE3": lambda one, _: one.tuple_of(3),
    "LIST": lambda one, _: one.list_of_mark(),
    "DICT": lambda one, _: one.dict_of_mark(),
    "APPEND": lambda one, _: one.append(is_many=False),
    "APPENDS": lambda one, _: one.append(is_many=True),
    "ADDITEMS": lambda one, _: one.add_items(),
    "SETITEM": lambda one, _: one.set_items(is_many=False),
    "SETITEMS": lambda one, _: one.set_items(is_many=True),
    "BINPUT": lambda one, number: one.put(number),
    "LONG_BINPUT": lambda one, number: one.put(number),
    "MEMOIZE": lambda one, _: one.memoize(),
    "BINGET": lambda one, number: one.get(number),
    "LONG_BINGET": lambda one, number: one.get(number),
}
