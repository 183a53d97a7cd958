"""The elements of a long array in a JSON document, a batch at a time: memory does not grow with the document.

A batch is cut where an element seems to end, and decoded. If what was cut off decodes as an array, the cut was right:
what JSON means up to a place does not depend on what follows. Otherwise another cut is tried, or more is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Generic, Protocol, TypeVar

import msgspec

BLOCK_BYTES = 1 << 20
MAX_PART_BYTES = 64 << 20
"""Of one element, and of what is before and after the array."""
NOT_READ = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What msgspec raises on JSON that is not of a type."""
MOST_MENDED = 1000
"""Places of a document: every one takes decoding again."""
_CUTS_TRIED = 3
_PLACES_TRIED = 64
"""Where a key may be that of the array: every one takes decoding what is before it."""
_MOST_MENDED_BYTES = 2 << 30
"""Decoded again after mending."""
_BYTE = re.compile(r" \(byte (\d+)\)$")
_PATH = re.compile(r"^(?P<problem>.*?)(?: - at `\$\[(?P<number>\d+)\](?P<path>[^`]*)`)?$", re.DOTALL)
_FIRST_KEY = re.compile(rb'\s*\{\s*"[^"\\]{0,40}"')
_TRAILING = "trailing characters"
_NO_TEXT, _MORE_COMMA, _LESS_COMMA = "is no UTF-8", "trailing comma in", "expected ',' or ']'"
_NO_NUMBER = re.compile(rb"-?(?:inf(?:inity)?|nan)\b", re.IGNORECASE)
"""How C++ and Python write numbers that JSON has none for."""
_LONGEST_NUMBER = 10

E = TypeVar("E")
H = TypeVar("H")


class BadDocument(Exception):
    """What is wrong with a document, and where."""


class ByteBlocks(Protocol):
    """Where bytes come from."""

    def read_at_least(self, count: int) -> bytes:
        """`count` bytes or more; fewer only at the end."""
        ...


class _Refused(Exception):
    """What was cut off is no array. `at`: byte that is wrong; None: more has to be read, or another cut taken."""

    def __init__(self, problem: str, at: int | None) -> None:
        super().__init__(problem)
        self.problem, self.at = problem, at


class ElementReader(Generic[E, H]):
    """Reads one document.

    Args:
        source: of its bytes.
        key: of the array in the outermost object.
        element: type of an element.
        around: type of the outermost object without the array.
        most_bytes, most_mended: see MAX_PART_BYTES and MOST_MENDED.

    Attributes:
        head: what is before the array.
        tail: what is after it; None until all elements have been read.
        mended: bytes at which the array was not JSON, in ways in which PyTorch writes it, and was read all the same.

    Raises:
        BadDocument: there is no such array, or it is not JSON, or not of these types; from everything here.
    """

    def __init__(
        self,
        source: ByteBlocks,
        key: str,
        *,
        element: type[E],
        around: type[H],
        most_bytes: int = MAX_PART_BYTES,
        most_mended: int = MOST_MENDED,
    ) -> None:
        self._source, self._most_bytes, self._most_mended = source, most_bytes, most_mended
        self._elements = msgspec.json.Decoder(list[element])  # type: ignore[valid-type]
        self._around = msgspec.json.Decoder(around)
        self._number = self._offset = 0
        self._buffer = b""
        self.tail: H | None = None
        self.mended: list[int] = []
        self._mended_bytes = 0
        self.head = self._read_head(re.compile(rb'"' + key.encode() + rb'"\s*:\s*\['))

    def batches(self) -> Iterator[tuple[int, list[E]]]:
        """The elements, with the number of the first of each batch."""
        while self.tail is None:
            batch = self._next_batch()
            if batch:
                yield self._number, batch
                self._number += len(batch)

    def _read_head(self, beginning: re.Pattern[bytes]) -> H:
        while True:
            more = self._more()
            for number, found in enumerate(beginning.finditer(self._buffer)):
                if number == _PLACES_TRIED:
                    raise BadDocument(f"the key of the list of its records is in {_PLACES_TRIED} places before it")
                try:
                    head = self._around.decode(self._buffer[: found.end()] + b"]}")
                except NOT_READ as error:
                    if isinstance(error, msgspec.ValidationError):
                        raise BadDocument(str(error)) from error
                    continue  # the key of something within
                self._drop(found.end())
                return head
            if not more:
                raise BadDocument("the list of its records is missing, or the text before it is not JSON")

    def _next_batch(self) -> list[E]:
        """Elements, or none if only more had to be read; the last time the tail is set."""
        for end in islice(self._cuts(), _CUTS_TRIED):
            try:
                return self._take(self._buffer[:end] + b"]", end)
            except _Refused as refused:
                if refused.at is not None:
                    return self._mend(refused, refused.at)
        try:
            return self._take(self._buffer, len(self._buffer))
        except _Refused as refused:
            if refused.at is not None:
                return self._mend(refused, refused.at)
        if not self._more():
            raise self._bad("the file ends within it", len(self._buffer))
        return []

    def _mend(self, refused: _Refused, at: int) -> list[E]:
        """Change what PyTorch is known to write wrongly, so that the rest can be read: no elements yet.

        Raises:
            BadDocument: it is something else.
        """
        if len(self._buffer) < at + _LONGEST_NUMBER and self._more():
            return []  # what is there may be cut
        before, after = self._buffer[:at], self._buffer[at:]
        if refused.problem.endswith(_NO_TEXT):
            changed = before + b"?" + after[1:]
        elif (number := _NO_NUMBER.search(before[-1:] + after[:_LONGEST_NUMBER])) and number.start() <= 1:
            start = at - len(before[-1:]) + number.start()
            changed = self._buffer[:start] + b"null" + self._buffer[start + len(number[0]) :]
        elif _MORE_COMMA in refused.problem and (comma := before.rstrip()).endswith(b","):
            changed = comma[:-1] + after
        elif refused.problem.endswith(_LESS_COMMA) and before.rstrip().endswith(b"}") and after.startswith(b"{"):
            changed = before + b"," + after
        else:
            raise self._bad(refused.problem, at) from refused
        self._mended_bytes += len(self._buffer)
        if len(self.mended) == self._most_mended or self._mended_bytes > _MOST_MENDED_BYTES:
            problem = f"{refused.problem}, after {len(self.mended)} other places that are no JSON"
            raise self._bad(problem, at) from refused
        self.mended.append(self._offset + at)
        self._offset += len(self._buffer) - len(changed)
        self._buffer = changed
        return []

    def _cuts(self) -> Iterator[int]:
        """Where elements may end, the last one first: before a comma, after which one begins as the first does."""
        first = _FIRST_KEY.match(self._buffer)
        mark = first[0].strip() if first else b"{"
        at = len(self._buffer)
        while (at := self._buffer.rfind(mark, 0, at)) > 0:
            before = self._buffer[max(0, at - 256) : at].rstrip()
            if before.endswith(b","):
                yield at - (min(at, 256) - len(before)) - 1

    def _take(self, text: bytes, end: int) -> list[E]:
        """Decode the elements of `text`, which lacks its `[`, and go on after `end`.

        Raises:
            _Refused: it is not such an array.
        """
        try:
            found = self._elements.decode(b"[" + text)
        except msgspec.ValidationError as error:
            raise _Refused(self._placed(str(error)), 0) from error
        except NOT_READ as error:
            if "utf-8" in str(error).lower():  # Python's error until msgspec 0.22, its own without a place since then
                raise _not_text(text) from error
            place = _BYTE.search(str(error))
            at = None if place is None else int(place[1]) - 1
            if at is not None and _TRAILING in str(error):
                return self._finish(at - 1)  # of these, msgspec counts the byte from 1
            if isinstance(error, msgspec.DecodeError) and (at is None or at >= end):
                raise _Refused(str(error), None) from error
            raise _Refused(_BYTE.sub("", str(error)), at or 0) from error
        if end == len(self._buffer):
            raise _Refused("the file ends within it", None)
        self._drop(end + 1)
        return found

    def _finish(self, at: int) -> list[E]:
        """The array ends before byte `at`."""
        closed = self._buffer[:at].rstrip()
        found = self._elements.decode(b"[" + closed)
        self._drop(len(closed))
        while self._more():
            pass
        rest = self._buffer.lstrip()
        try:
            self.tail = self._around.decode(b"{" + rest.removeprefix(b","))
        except NOT_READ as error:
            raise self._bad(f"after the list of its records: {_BYTE.sub('', str(error))}", 0) from error
        return found

    def _more(self) -> bool:
        """Read on; False: there is nothing more.

        Raises:
            BadDocument: a part is too long.
        """
        if len(self._buffer) > self._most_bytes:
            raise self._bad(f"a part of it is longer than {self._most_bytes >> 20} MiB", 0)
        block = self._source.read_at_least(max(BLOCK_BYTES, len(self._buffer)))
        self._buffer += block
        return bool(block)

    def _drop(self, count: int) -> None:
        self._buffer = self._buffer[count:]
        self._offset += count

    def _placed(self, problem: str) -> str:
        """A problem with the number of its element in the document."""
        found = _PATH.match(problem)
        if found is None or found["number"] is None:
            return problem
        return f"record {self._number + int(found['number'])}{found['path']}: {found['problem']}"

    def _bad(self, problem: str, at: int) -> BadDocument:
        return BadDocument(f"{problem} (byte {self._offset + at})")


def _not_text(data: bytes) -> _Refused:
    """Where the first byte is that is no UTF-8: msgspec counts it from the beginning of its string."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        is_cut = error.reason == "unexpected end of data"
        return _Refused(f"byte {data[error.start]:#04x} is no UTF-8", None if is_cut else error.start)
    return _Refused("is no UTF-8", None)
