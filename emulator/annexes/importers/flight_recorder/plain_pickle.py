"""A reader of pickles that hold plain values only: nothing is imported, nothing is called, memory stays bounded.

It knows the opcodes that build dict, list, tuple, set, str, bytes, numbers, bool and None; every other one is refused
with its offset. So a pickle cannot name a class or a function, let alone run one. The standard library's pickletools
tells opcodes and their arguments apart; it carries out none.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable
from typing import Any

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
