"""A profile's file → a Profile. docs/profiles.md shows the files."""

from __future__ import annotations

import hashlib
import sysconfig
from collections.abc import Iterable, Sequence
from fractions import Fraction
from ipaddress import ip_network
from pathlib import Path
from typing import TYPE_CHECKING, Any

from emulator.dut.opcodes import OPCODE_CLASSES, OpcodeClass
from emulator.dut.profile import (
    Above,
    Action,
    Delay,
    Drop,
    Duplicate,
    Every,
    Mark,
    Match,
    Police,
    PortDown,
    Profile,
    Rate,
    Rule,
    Selection,
    Shape,
    Share,
)
from emulator.errors import InputError
from emulator.topology.document import Document, KeyPath, read_document
from emulator.topology.network import End
from emulator.units import parse_duration, parse_rate, parse_size
from emulator.validation import first_problem

if TYPE_CHECKING:
    from jsonschema import ValidationError

SHIPPED = "lab/profiles"
DEFAULT_BURST_BYTES = 16 << 10
_ACTIONS = ("drop", "duplicate", "mark", "police", "shape", "delay", "state")
_OF_FRAMES = ("opcode", "source", "destination", "source_port", "queue_pair", "traffic", "arriving")
_OF_PORTS = ("shape", "delay", "state")
_UNITS = {
    **dict.fromkeys(("share", "reorder"), "0.5%"),
    **dict.fromkeys(("above", "rate"), "90Mbit or 90%"),
    **dict.fromkeys(("time", "jitter"), "100us"),
}


def find_profile(text: str) -> Path:
    """The file of a profile: a path, or the name of one that comes with Charkha.

    Raises:
        InputError: there is none.
    """
    if Path(text).is_file():
        return Path(text)
    shipped = {path.stem: path for folder in _shipped_folders() for path in sorted(folder.glob("*.yaml"))}
    if text in shipped:
        return shipped[text]
    raise InputError(f"there is no profile {text!r}: give a file, or one of {', '.join(sorted(shipped)) or 'none'}")


def load_profile(path: Path) -> Profile:
    """Read a profile.

    Raises:
        TopologyError: the file is wrong: it names file, line and key.
    """
    document = read_document(path)
    problem = first_problem(document.value, package="emulator.dut", schema="profile.schema.json")
    if problem is not None:
        raise document.error(_in_words(problem), list(problem.absolute_path))
    rules = [_rule(document, entry, ("rules", n)) for n, entry in enumerate(document.value["rules"])]
    _refuse_twins(document, rules)
    return Profile(
        name=document.value.get("name", path.stem),
        path=path,
        digest=hashlib.sha256(path.read_bytes()).hexdigest(),
        rules=tuple(rules),
        document=document,
        description=document.value.get("description", ""),
    )


def _shipped_folders() -> list[Path]:
    """Of a source tree, and of an installed package."""
    source_tree = Path(__file__).resolve().parents[2]
    return [source_tree / SHIPPED, Path(sysconfig.get_path("data")) / "share" / "charkha" / "profiles"]


def _in_words(problem: ValidationError) -> str:
    last = problem.absolute_path[-1] if problem.absolute_path else ""
    if problem.validator == "oneOf":
        return "needs exactly one of share, every and above"
    if problem.validator in ("minProperties", "maxProperties"):
        return "needs exactly one of share and every"
    if problem.validator in ("anyOf", "pattern") and last != "opcode":
        return f"{problem.instance!r} is not a port: write it as switch:port, or a list of them"
    if problem.validator == "type" and last in _UNITS:
        return f"{problem.instance!r} has no unit: write one as in {_UNITS[last]}"
    return str(problem.message)


def _refuse_twins(document: Document, rules: Sequence[Rule]) -> None:
    names: set[str] = set()
    for number, rule in enumerate(rules):
        if rule.name in names:
            raise document.error(f"a rule named {rule.name!r} is there already", ("rules", number, "name"))
        names.add(rule.name)


def _rule(document: Document, entry: dict[str, Any], key: KeyPath) -> Rule:
    said = [name for name in _ACTIONS if name in entry]
    if len(said) != 1:
        raise document.error(f"needs exactly one of {', '.join(_ACTIONS)}", key)
    _refuse_contradictions(document, entry, said[0], key)
    number = key[-1]
    return Rule(
        name=entry.get("name", f"{said[0]}-{number}"),
        action=_action(document, said[0], entry[said[0]], (*key, said[0])),
        match=_match(document, entry, key),
        ports=_ends(entry.get("port")),
        start_s=entry.get("start"),
        end_s=entry.get("end"),
    )


def _refuse_contradictions(document: Document, entry: dict[str, Any], action: str, key: KeyPath) -> None:
    for name in _OF_FRAMES if action in _OF_PORTS else ():
        if name in entry:
            raise document.error(f"selects frames, but {action} holds for a whole port", (*key, name))
    if action == "state" and "port" not in entry:
        raise document.error("needs a port", (*key, action))
    if entry.get("end", float("inf")) <= entry.get("start", 0):
        raise document.error("is not after its start", (*key, "end"))
    for name in ("opcode", "source_port", "queue_pair"):
        if entry.get("traffic") == "any" and name in entry:
            raise document.error(f"is any, but {name} is known of RoCEv2 only", (*key, "traffic"))


def _action(document: Document, name: str, value: Any, key: KeyPath) -> Action:
    match name:
        case "drop":
            return Drop(_selection(document, value, key))
        case "duplicate":
            return Duplicate(_selection(document, value, key))
        case "mark":
            return Mark(_above(document, value, "above", key) if "above" in value else _selection(document, value, key))
        case "police":
            return Police(_above(document, value, "rate", key))
        case "shape":
            queue = _size(document, value["queue"], (*key, "queue")) if "queue" in value else None
            return Shape(_rate(document, value["rate"], (*key, "rate")), queue)
        case "delay":
            return _delay(document, value, key)
    return PortDown()


def _selection(document: Document, value: dict[str, Any], key: KeyPath) -> Selection:
    if "every" in value:
        return Every(value["every"])
    return Share(_share(document, value["share"], (*key, "share")))


def _above(document: Document, value: dict[str, Any], name: str, key: KeyPath) -> Above:
    burst = value.get("burst", DEFAULT_BURST_BYTES)
    return Above(_rate(document, value[name], (*key, name)), _size(document, burst, (*key, "burst")))


def _delay(document: Document, value: dict[str, Any], key: KeyPath) -> Delay:
    times = {name: _time(document, value[name], (*key, name)) for name in ("time", "jitter") if name in value}
    reorder = _share(document, value["reorder"], (*key, "reorder")) if "reorder" in value else None
    return Delay(times["time"], times.get("jitter", 0), reorder)


def _rate(document: Document, text: str, key: KeyPath) -> Rate:
    if text.strip().endswith("%"):
        return Rate(share=_share(document, text, key))
    try:
        bps = parse_rate(text)
    except ValueError as error:
        raise document.error(f"{error}, or a share of the port's as 90%", key) from error
    if bps < 8_000:
        raise document.error(f"{text!r} is below 8 kbit/s, which no rule here can hold to", key)
    return Rate(bps=bps)


def _share(document: Document, text: str, key: KeyPath) -> Fraction:
    number = text.strip().removesuffix("%").strip()
    try:
        value = Fraction(number) / 100 if text.strip().endswith("%") and len(number) < 20 else Fraction(0)
    except (ValueError, ZeroDivisionError):
        value = Fraction(0)
    if not Fraction(1, 10**6) <= value <= 1:
        raise document.error(f"{text!r} is not a share: write one as 0.5%, from 0.0001% to 100%", key)
    return value


def _size(document: Document, value: str | int, key: KeyPath) -> int:
    try:
        size = parse_size(str(value))
    except ValueError as error:
        raise document.error(str(error), key) from error
    if not 1 <= size < 1 << 32:
        raise document.error(f"{value!r} is not between 1 byte and 4 GiB", key)
    return size


def _time(document: Document, text: str, key: KeyPath) -> int:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise document.error(str(error), key) from error


def _match(document: Document, entry: dict[str, Any], key: KeyPath) -> Match:
    for name in ("source", "destination"):
        if name in entry:
            _require_prefix(document, entry[name], (*key, name))
    return Match(
        opcodes=tuple(_opcodes(document, entry.get("opcode", []), (*key, "opcode"))),
        source=entry.get("source"),
        destination=entry.get("destination"),
        source_port=entry.get("source_port"),
        queue_pair=entry.get("queue_pair"),
        is_any_traffic=entry.get("traffic") == "any",
        arriving=_ends(entry.get("arriving")),
    )


def _require_prefix(document: Document, text: str, key: KeyPath) -> None:
    try:
        ip_network(text)
    except ValueError as error:
        raise document.error(f"{text!r} is not an address or prefix ({error})", key) from error


def _opcodes(document: Document, value: Any, key: KeyPath) -> Iterable[OpcodeClass]:
    for one in value if isinstance(value, list) else [value]:
        if isinstance(one, int):
            yield OpcodeClass(f"0x{one:02x}", (one,))
        elif one in OPCODE_CLASSES:
            yield OPCODE_CLASSES[one]
        else:
            raise document.error(f"{one!r} is not a class of opcodes; there are {', '.join(OPCODE_CLASSES)}", key)


def _ends(value: str | list[str] | None) -> tuple[End, ...]:
    texts = [value] if isinstance(value, str) else value or []
    return tuple(End(node, port) for node, _, port in (text.rpartition(":") for text in texts))
