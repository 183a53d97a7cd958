"""A reader of pickles that hold plain values only: nothing is imported, nothing is called, memory stays bounded.

It knows the opcodes that build dict, list, tuple, set, str, bytes, numbers, bool and None; every other one is refused
with its offset. So a pickle cannot name a class or a function, let alone run one.

Source of the opcodes: CPython, Lib/pickletools.py.
"""

from __future__ import annotations

import struct
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
    """A pickle that holds something else than plain values, or a corrupt one: what is wrong, and the offset."""

    def __init__(self, problem: str, offset: int) -> None:
        super().__init__(problem)
        self.problem, self.offset = problem, offset


def load_plain(data: bytes) -> Any:
    """The value in a pickle.

    Raises:
        PickleProblem: it holds something else than plain values, is corrupt, or unfolds to too many values.
    """
    return _Machine(data).run()


class _Machine:
    """The stack machine of the pickle protocol, without the opcodes that import or call."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = self._opcode_at = 0
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}
        self._weights: dict[int, int] = {}
        self._depths: dict[int, int] = {}
        self._held: list[Any] = []  # so that no id is used twice
        self._shared: set[int] = set()

    def run(self) -> Any:
        while True:
            self._opcode_at = self._at
            opcode = self._take(1)
            if opcode == b".":
                if len(self._stack) != 1:
                    raise self._problem("ends with unused values")
                return self._pop()
            step = _STEPS.get(opcode)
            if step is None:
                raise self._problem(f"contains something other than plain values (opcode {opcode!r})")
            try:
                step(self)
            except (TypeError, UnicodeDecodeError, OverflowError) as error:
                raise self._problem(f"is corrupt: {error}") from error

    def _problem(self, what: str) -> PickleProblem:
        return PickleProblem(what, self._opcode_at)

    def _take(self, count: int) -> bytes:
        if count < 0 or self._at + count > len(self._data):
            raise self._problem("ends too early")
        self._at += count
        return self._data[self._at - count : self._at]

    def _number(self, form: str) -> int:
        (value,) = struct.unpack(form, self._take(struct.calcsize(form)))
        return int(value)

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

    def skip(self, form: str) -> None:
        self._number(form)

    def integer(self, form: str) -> None:
        self.push(self._number(form))

    def long(self, form: str) -> None:
        self.push(int.from_bytes(self._take(self._number(form)), "little", signed=True))

    def decimal_line(self) -> None:
        line = self._line()
        if line in (b"00", b"01"):
            self.push(line == b"01")
        elif not line.removesuffix(b"L").removeprefix(b"-").isdigit() or len(line) > 40:
            raise self._problem("is corrupt: not a number")
        else:
            self.push(int(line.removesuffix(b"L")))

    def _line(self) -> bytes:
        end = self._data.find(b"\n", self._at)
        if end < 0:
            raise self._problem("ends too early")
        line = self._data[self._at : end]
        self._at = end + 1
        return line

    def real(self) -> None:
        (value,) = struct.unpack(">d", self._take(8))
        self.push(float(value))

    def text(self, form: str) -> None:
        self.push(self._take(self._number(form)).decode("utf-8", "surrogatepass"))

    def raw(self, form: str) -> None:
        self.push(self._take(self._number(form)))

    def mark(self) -> None:
        self._stack.append(_MARK)

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

    def put_form(self, form: str) -> None:
        self.put(self._number(form))

    def get_form(self, form: str) -> None:
        self.get(self._number(form))

    def memoize(self) -> None:
        self.put(len(self._memo))

    def drop(self) -> None:
        if not self._stack:
            raise self._problem("takes a value that is not there")
        self._stack.pop()


_STEPS: dict[bytes, Callable[[_Machine], None]] = {
    b"\x80": lambda one: one.skip("<B"),  # PROTO
    b"\x95": lambda one: one.skip("<Q"),  # FRAME
    b"N": lambda one: one.push(None),
    b"\x88": lambda one: one.push(True),
    b"\x89": lambda one: one.push(False),
    b"I": lambda one: one.decimal_line(),
    b"L": lambda one: one.decimal_line(),
    b"K": lambda one: one.integer("<B"),
    b"M": lambda one: one.integer("<H"),
    b"J": lambda one: one.integer("<i"),
    b"\x8a": lambda one: one.long("<B"),
    b"\x8b": lambda one: one.long("<i"),
    b"G": lambda one: one.real(),
    b"\x8c": lambda one: one.text("<B"),
    b"X": lambda one: one.text("<I"),
    b"\x8d": lambda one: one.text("<Q"),
    b"C": lambda one: one.raw("<B"),
    b"B": lambda one: one.raw("<I"),
    b"\x8e": lambda one: one.raw("<Q"),
    b"(": lambda one: one.mark(),
    b"0": lambda one: one.drop(),
    b")": lambda one: one.push_container((), []),
    b"]": lambda one: one.push_container([], []),
    b"}": lambda one: one.push_container({}, []),
    b"\x8f": lambda one: one.push_container(set(), []),
    b"t": lambda one: one.tuple_of(None),
    b"\x85": lambda one: one.tuple_of(1),
    b"\x86": lambda one: one.tuple_of(2),
    b"\x87": lambda one: one.tuple_of(3),
    b"l": lambda one: one.list_of_mark(),
    b"d": lambda one: one.dict_of_mark(),
    b"a": lambda one: one.append(is_many=False),
    b"e": lambda one: one.append(is_many=True),
    b"\x90": lambda one: one.add_items(),
    b"s": lambda one: one.set_items(is_many=False),
    b"u": lambda one: one.set_items(is_many=True),
    b"q": lambda one: one.put_form("<B"),
    b"r": lambda one: one.put_form("<I"),
    b"\x94": lambda one: one.memoize(),
    b"h": lambda one: one.get_form("<B"),
    b"j": lambda one: one.get_form("<I"),
}
