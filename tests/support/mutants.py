"""Documents that are wrong in one to three places: whatever a reader takes, from good examples of it.

A mutation is a function of a value or bytes and a seeded `random.Random`. Values are trees of plain objects; what no
plain object can say (a number of 400 digits, bytes that are not text, a mapping as a key) is `Raw`, written as it is.
"""

import json
import re
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from difflib import SequenceMatcher
from itertools import combinations, product
from random import Random
from typing import Any


class Raw(bytes):
    """Bytes that stand in a document as they are."""


DIGITS = b"9" * 400
NUMBERS: Sequence[Any] = (
    *(0, 1, -1, 7, 119, 1 << 31, -(1 << 31), (1 << 53) + 1, (1 << 63) - 1, 1 << 63, -(1 << 63), 1 << 64, 1 << 70),
    *(0.5, -1.5, 1e308, -1e308, 5e-324, Raw(DIGITS), Raw(b"-" + DIGITS), Raw(DIGITS + b".5"), Raw(b"1e999")),
    *(Raw(b"NaN"), Raw(b"Infinity"), Raw(b"-Infinity")),
)
YAML_ONLY: Sequence[Any] = (
    *(Raw(b".nan"), Raw(b".inf"), Raw(b"-.inf"), Raw(b"1" + b":59" * 200 + b".5"), Raw(b"1:59:59"), Raw(b"0x1F")),
    *(Raw(b"2026-02-30"), Raw(b"2026-13-45T25:61:61Z"), Raw(b"2026-01-02"), Raw(b"2026-01-02T03:04:05+99:99")),
    *(
        Raw(b"{{a: 1}: 2}"),
        Raw(b"{[a]: 1}"),
        Raw(b"{null: 1}"),
        Raw(b"{1.5: a}"),
        Raw(b"{<<: {a: 1}}"),
        Raw(b"{<<: 7}"),
    ),
    *(Raw(b"!!binary =x"), Raw(b"!!python/none x"), Raw(b"!!int x"), Raw(b"!!float x"), Raw(b"!!timestamp x")),
    *(Raw(b"!!set {a}"), Raw(b"!!omap [a]"), Raw(b"!!pairs [a]"), Raw(b"&a [*a]"), Raw(b"*b"), Raw(b"yes"), Raw(b"=")),
    *(
        Raw(b"!!map [a]"),
        Raw(b"!!seq {a: 1}"),
        Raw(b"!!bool x"),
        Raw(b"!!str {a: 1}"),
        Raw(b"! x"),
        Raw(b"0b"),
        Raw(b"0_"),
    ),
)
TEXTS: Sequence[Any] = (
    *(
        "",
        " ",
        "x",
        "-1",
        "0",
        "NaN",
        "inf",
        "1e999",
        "9" * 400,
        "9" * 30 + "Gbit",
        "9" * 400 + "K",
        "a/b",
        "../x",
        "x\0y",
    ),
    *("a" * 5000, "\n", "é", "[0, 1]", "{}", "2026-02-30T00:00:00", "9" * 400 + "us", "0:0", ":", "%", "-", "٣", "²"),
    *("1.2.3.4/99", "::1", "10.0.0.1", "h0:eth0", "{", "<b>", "\x1b[31m", "9999-12-31T23:59:59-23:59", "0001-01-01"),
    *(Raw(b'"\xff\xfe"'), Raw(b'"a\xc3"'), Raw(b'"\\ud800"'), Raw(b'"\\u0000"')),
)
OTHERS: Sequence[Any] = (None, True, False, [], [[]], {}, {"a": 1}, [None], {"": None}, [[0, 1]], {"0": "x"})
_NUMBER = re.compile(r"\d+(\.\d+)?")


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in a document: its container and key."""
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in list(entries):
        yield value, key
        yield from places(one)


def with_other_values(document: Any, chance: Random, *, junk: Sequence[Any] = ()) -> Any:
    """A copy of a document of which one to three places are different.

    Args:
        document: plain objects.
        chance: decides what.
        junk: values beyond the usual ones that may come in.
    """
    holder = [_copy(document)]
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        container, key = chance.choice(list(places(holder)))
        _change(holder, container, key, chance, junk)
    return holder[0]


def different_places(before: Any, after: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where the second of two documents says something else than the first one.

    Not: where it says nothing, or the same twice.
    """
    if isinstance(before, dict) and isinstance(after, dict):
        for key, one in before.items():
            yield from different_places(one, after.get(key), (*path, key))
    elif isinstance(before, list | tuple) and isinstance(after, list | tuple) and after:
        was, now = ([repr(one) for one in those] for those in (before, after))
        for how, at, end, to, until in SequenceMatcher(None, was, now, autojunk=False).get_opcodes():
            if how == "replace":
                least = min(end - at, until - to)
                ways = product(combinations(range(at, end), least), combinations(range(to, until), least))
                found = (
                    [
                        place
                        for key, other in zip(*way, strict=True)
                        for place in different_places(before[key], after[other], (*path, key))
                    ]
                    for way in ways
                )
                yield from min(found, key=len)  # something may have come in, or gone
    elif not _says_nothing(after) and before != after and _bare(before) != _bare(after):
        yield path


def _says_nothing(value: Any) -> bool:
    return all(map(_says_nothing, value)) if isinstance(value, list) else value in (None, "", {})


def _bare(value: Any) -> str:
    return "".join(str(value).split())


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy(one) for key, one in value.items()}
    return [_copy(one) for one in value] if isinstance(value, list | tuple) else value


def _change(holder: list[Any], container: Any, key: Any, chance: Random, junk: Sequence[Any]) -> None:
    value, is_inner = container[key], container is not holder
    how = chance.random()
    if how < 0.12 and is_inner:
        del container[key]
    elif how < 0.2 and isinstance(container, dict):
        container[
            chance.choice(("x", "name", "", f"{key}s" if isinstance(key, str) else "y", Raw(b"{a: 1}"), Raw(b'"\xff"')))
        ] = container.pop(key)
    elif how < 0.26 and is_inner and isinstance(container, list):
        container.insert(key, _copy(value))
    elif how < 0.34:
        other, where = chance.choice(list(places(holder)))
        container[key] = _copy(other[where])
    elif how < 0.4:
        container[key] = _another_shape(value, chance)
    elif how < 0.6 and isinstance(value, int | float | str) and not isinstance(value, bool):
        container[key] = _nearby(value, chance)
    else:
        container[key] = _copy(chance.choice(chance.choice([NUMBERS, TEXTS, OTHERS, *([junk] if junk else [])])))


def _another_shape(value: Any, chance: Random) -> Any:
    """A list for a mapping and the other way round, a text for a number …"""
    if isinstance(value, dict):
        return chance.choice(([*value], [*value.values()], [value], {"x": value}))
    if isinstance(value, list):
        return chance.choice(
            ({str(at): one for at, one in enumerate(value)}, value[:1], [value], value[0] if value else 0)
        )
    return chance.choice((str(value), [value], {"x": value}, len(str(value))))


def _nearby(value: float | str, chance: Random) -> Any:
    """A number or text of the same type: larger, negative, with a number enlarged, cut or with another character."""
    if isinstance(value, str):
        at = chance.randrange(len(value) + 1)
        number = chance.choice(("0", "-1", "1e9", "99", "9" * 30, "9" * 400, "NaN", "0.0000001"))
        return chance.choice(
            (
                _NUMBER.sub(lambda _: number, value, count=1),
                value[:at],
                value[:at] + chance.choice("\0x9:-/. ") + value[at:],
            )
        )
    whole = chance.choice((-value, value + 1, value - 1, value * 1000, value * (1 << 40), value / 7))
    return int(whole) if isinstance(value, int) and chance.random() < 0.8 else whole


def written(value: Any) -> bytes:
    """A document as JSON, which nearly always is YAML too; Raw stands as it is."""
    if isinstance(value, Raw):
        return value
    with suppress(TypeError):  # there is Raw in it
        return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")
    if isinstance(value, dict):
        return b"{" + b", ".join(written(key) + b": " + written(one) for key, one in value.items()) + b"}"
    return b"[" + b", ".join(map(written, value)) + b"]"


def without_raw(value: Any) -> Any:
    """A document with plain bytes instead of `Raw`, for a pickle."""
    if isinstance(value, dict):
        return {without_raw(key): without_raw(one) for key, one in value.items()}
    if isinstance(value, list):
        return [without_raw(one) for one in value]
    return bytes(value) if isinstance(value, Raw) else value


def damaged_bytes(data: bytes, chance: Random) -> bytes:
    """Bytes with one to three changes that know nothing of the format."""
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        at, other = chance.randrange(len(data) + 1), chance.randrange(len(data) + 1)
        length = chance.choice((1, 1, 2, 4, 8, 20))
        change = chance.randrange(6)
        if change == 0:
            data = data[:at]
        elif change == 1:
            data = data[:at] + data[at + length :]
        elif change == 2:
            data = data[:at] + data[other : other + 60] + data[at:]
        elif change == 3:
            data = data[:at] + _telling(length, chance) + data[at + length :]
        else:
            data = data[:at] + bytes(one ^ 1 << chance.randrange(8) for one in data[at : at + 1]) + data[at + 1 :]
    return data


def _telling(length: int, chance: Random) -> bytes:
    extreme = chance.choice((0, 1, 0x7F << 8 * (length - 1), (1 << 8 * length) - 1, 1 << 8 * length - 1))
    return chance.choice(
        (extreme.to_bytes(length, "little"), extreme.to_bytes(length, "big"), chance.randbytes(length))
    )


def damaged_text(data: bytes, chance: Random) -> bytes:
    """Lines that are gone, there twice or in another order; words that are replaced; or other bytes."""
    lines = data.split(b"\n")
    at = chance.randrange(len(lines))
    change = chance.randrange(8)
    if change == 0:
        del lines[at]
    elif change == 1:
        lines.insert(at, lines[at])
    elif change == 2:
        chance.shuffle(lines)
    elif change == 3:
        return damaged_bytes(data, chance)
    else:
        words = re.split(rb"([\s=:,\[\]\"<>]+)", lines[at])
        words[chance.randrange(len(words))] = _word(chance)
        lines[at] = b"".join(words)
    return b"\n".join(lines)


def _word(chance: Random) -> bytes:
    found = chance.choice(chance.choice((NUMBERS, TEXTS)))
    return bytes(found) if isinstance(found, Raw) else str(found).encode()


def damaged_document(document: Any, chance: Random, *, is_yaml: bool = False) -> bytes:
    """A text document, JSON or YAML: other values in nine of ten, otherwise other bytes."""
    write = in_lines if is_yaml else written
    if chance.random() < 0.9:
        return write(with_other_values(document, chance, junk=YAML_ONLY if is_yaml else ()))
    return damaged_bytes(write(document), chance)


def in_lines(value: Any) -> bytes:
    """A document as YAML with a line for every key of its outermost mapping."""
    if isinstance(value, dict) and value:
        return b"".join(written(key) + b": " + written(one) + b"\n" for key, one in value.items())
    return written(value)


def damaged_message(data: bytes, chance: Random) -> bytes:
    """A protobuf message of which one to three fields, also inner ones, are different."""
    for _ in range(chance.choice((1, 1, 2, 3))):
        data = _other_field(data, chance)
    return data


def _other_field(data: bytes, chance: Random) -> bytes:
    fields = list(_fields(data))
    if not fields:
        return data + chance.choice((b"\x08\x01", b"\x1a", b"\xff" * 10))
    at = chance.randrange(len(fields))
    tag, value = fields[at]
    change = chance.randrange(10)
    if change == 0:
        del fields[at]
    elif change == 1:
        fields.insert(at, fields[at])
    elif change == 2:
        fields[at] = (chance.choice((tag ^ chance.randrange(1, 8), tag ^ 8, tag + 8)), value)
    elif isinstance(value, bytes) and (not value or chance.random() < 0.35 or next(_fields(value), None) is None):
        text = chance.choice((b"", b"\xff\xfe", _word(chance), damaged_bytes(value, chance), value * 3))
        fields[at] = (tag, text)
    elif isinstance(value, bytes):
        fields[at] = (tag, _other_field(value, chance))
    else:
        numbers = (0, 1, 2, 7, 255, 1 << 31, (1 << 32) - 1, 1 << 32, (1 << 63) - 1, 1 << 63, (1 << 64) - 1, value + 1)
        fields[at] = (tag, chance.choice(numbers))
    return b"".join(map(_field, fields))


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Tag and value of the fields of a message; nothing if it is none."""
    found: list[tuple[int, int | bytes]] = []
    at = 0
    try:
        while at < len(data):
            tag, at = _varint(data, at)
            kind, length = tag & 7, 0
            value: int | bytes
            if kind == 0:
                value, at = _varint(data, at)
            elif kind in (1, 5):
                length = 8 if kind == 1 else 4
                value = int.from_bytes(data[at : at + length], "little")
            elif kind == 2:
                length, at = _varint(data, at)
                value = data[at : at + length]
            else:
                return
            if at + length > len(data) or tag < 8:
                return
            at += length
            found.append((tag, value))
    except IndexError:
        return
    yield from found


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value, at, shift = value | (byte & 0x7F) << shift, at + 1, shift + 7
        if byte < 0x80:
            return value, at


def _field(field: tuple[int, int | bytes]) -> bytes:
    tag, value = field
    if isinstance(value, bytes):
        return varint(tag) + varint(len(value)) + value
    if tag & 7 in (1, 5):
        size = 8 if tag & 7 == 1 else 4
        return varint(tag) + (value & (1 << 8 * size) - 1).to_bytes(size, "little")
    return varint(tag) + varint(value)


def varint(value: int) -> bytes:
    """A number as protobuf writes it."""
    made = b""
    while value > 0x7F:
        made, value = made + bytes([value & 0x7F | 0x80]), value >> 7
    return made + bytes([value])


def damaged_records(records: Sequence[bytes], chance: Random) -> bytes:
    """Records with their lengths before them, as .et files have them, of which some are different."""
    found = list(records)
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        at, change = chance.randrange(len(found)), chance.randrange(8)
        if change == 0 and len(found) > 1:
            del found[at]
        elif change == 1:
            found.insert(at, chance.choice(found))
        else:
            found[at] = damaged_message(found[at], chance)
    return b"".join(varint(len(one)) + one for one in found)


def damaged_words(data: bytes, chance: Random) -> bytes:
    """Binary data of whole words: one or two 8-, 16- or 32-bit numbers are extreme; otherwise other bytes."""
    if chance.random() < 0.5:
        return damaged_bytes(data, chance)
    made = bytearray(data)
    for _ in range(chance.randint(1, 2)):
        size = chance.choice("BHI")
        at = chance.randrange(max(1, len(made) - 4))
        top = (1 << 8 * struct.calcsize(size)) - 1
        struct.pack_into(chance.choice("<>") + size, made, at, chance.choice((0, 1, top, top >> 1, (top >> 1) + 1)))
    return bytes(made)


Damage = Callable[[Random], bytes]
