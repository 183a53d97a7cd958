"""A profile file → a Profile. docs/profiles.md describes the files."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from ipaddress import ip_network
from pathlib import Path
from typing import TypeVar

from emulator.device.profile.file_format import (
    EXAMPLES,
    DelaySection,
    MarkSection,
    ProfileFile,
    ProfileRuleSection,
    SelectionSection,
)
from emulator.device.profile.profile import (
    OPCODE_CLASSES,
    Above,
    Action,
    Delay,
    Drop,
    Duplicate,
    Every,
    FrameShare,
    Mark,
    Match,
    Moment,
    Once,
    OpcodeClass,
    Police,
    PortDown,
    Profile,
    ProfileRule,
    Rate,
    Selection,
    Shape,
)
from emulator.errors import InputError
from emulator.roce.wire.psn import PSN_MASK
from emulator.schema import NO_UNIT, SchemaProblem, decode
from emulator.shipped import PROFILES
from emulator.topology.document import Document, KeyPath, read_document
from emulator.topology.network import End
from emulator.units import parse_duration, parse_rate, parse_size

T = TypeVar("T")
DEFAULT_BURST_BYTES = 16 << 10
_SELECT_FRAMES = ("opcode", "source", "destination", "source_port", "queue_pair", "psn", "traffic", "arriving")
_APPLY_TO_PORTS = ("shape", "delay", "state")


def find_profile(text: str) -> Path:
    """The file of a profile.

    Args:
        text: a path, or the name of a profile that Charkha ships.

    Raises:
        InputError: there is no such profile.
    """
    path = PROFILES.find(text)
    if not path.is_file():
        raise InputError(f"there is no profile {text!r}: give a file, or one of {', '.join(PROFILES.paths)}")
    return path


def load_profile(path: Path) -> Profile:
    """Read a profile.

    Raises:
        TopologyError: the file is wrong; the error names file, line and key.
    """
    document = read_document(path)
    file = _decode(document)
    rules = [_rule(document, section, ("rules", n)) for n, section in enumerate(file.rules)]
    _refuse_duplicate_names(document, rules)
    return Profile(
        name=file.name or path.stem,
        path=path,
        digest=hashlib.sha256(path.read_bytes()).hexdigest(),
        rules=tuple(rules),
        document=document,
        description=file.description,
    )


def _decode(document: Document) -> ProfileFile:
    document.require_values()
    try:
        return decode(document.value, ProfileFile)
    except SchemaProblem as error:
        key = error.path[-1] if error.path else ""
        has_no_unit = key in EXAMPLES and error.problem == NO_UNIT
        problem = f"has no unit: write, for example, {EXAMPLES[str(key)]}" if has_no_unit else error.problem
        raise document.error(problem, error.path) from error


def _refuse_duplicate_names(document: Document, rules: Sequence[ProfileRule]) -> None:
    names: set[str] = set()
    for number, rule in enumerate(rules):
        if rule.name in names:
            raise document.error(f"another rule is already named {rule.name!r}", ("rules", number, "name"))
        names.add(rule.name)


def _rule(document: Document, section: ProfileRuleSection, key: KeyPath) -> ProfileRule:
    _refuse_contradictions(document, section, key)
    return ProfileRule(
        name=section.name or f"{section.action}-{key[-1]}",
        action=_action(document, section, (*key, section.action)),
        match=_match(document, section, key),
        ports=tuple(_ports(document, section.port, (*key, "port"))),
        start=None if section.start is None else Moment(section.start),
        end=None if section.end is None else Moment(section.end),
    )


def _refuse_contradictions(document: Document, section: ProfileRuleSection, key: KeyPath) -> None:
    for name in _SELECT_FRAMES if section.action in _APPLY_TO_PORTS else ():
        if getattr(section, name) is not None:
            raise document.error(f"selects frames, but {section.action} applies to a whole port", (*key, name))
    if section.state is not None and section.port is None:
        raise document.error("needs a port", (*key, "state"))
    if section.end is not None and section.end <= (section.start or 0):
        raise document.error("is not after its start", (*key, "end"))
    for name in ("opcode", "source_port", "queue_pair", "psn"):
        if section.traffic == "any" and getattr(section, name) is not None:
            raise document.error(f"is any, but only RoCEv2 frames have {name}", (*key, "traffic"))


def _action(document: Document, section: ProfileRuleSection, key: KeyPath) -> Action:
    if section.drop is not None:
        return Drop(_selection(document, section.drop, key))
    if section.duplicate is not None:
        return Duplicate(_selection(document, section.duplicate, key))
    if section.mark is not None:
        return Mark(_marked(document, section.mark, key))
    if section.police is not None:
        rate = _rate(document, section.police.rate, (*key, "rate"))
        return Police(Above(rate, _burst(document, section.police.burst, key)))
    if section.shape is not None:
        queue = section.shape.queue
        size = None if queue is None else _size(document, queue, (*key, "queue"))
        return Shape(_rate(document, section.shape.rate, (*key, "rate")), size)
    return PortDown() if section.delay is None else _delay(document, section.delay, key)


def _selection(document: Document, section: SelectionSection | MarkSection, key: KeyPath) -> Selection:
    if section.every is not None:
        return Every(section.every)
    if section.once is not None:
        return Once()
    return FrameShare(_share(document, section.share or "", (*key, "share")))


def _marked(document: Document, section: MarkSection, key: KeyPath) -> Selection | Above:
    if section.above is None:
        return _selection(document, section, key)
    return Above(_rate(document, section.above, (*key, "above")), _burst(document, section.burst, key))


def _burst(document: Document, size: str | int | None, key: KeyPath) -> int:
    return DEFAULT_BURST_BYTES if size is None else _size(document, size, (*key, "burst"))


def _delay(document: Document, section: DelaySection, key: KeyPath) -> Delay:
    return Delay(
        document.parse(parse_duration, section.time, (*key, "time")) or 0,
        document.parse(parse_duration, section.jitter, (*key, "jitter")) or 0,
        None if section.reorder is None else _share(document, section.reorder, (*key, "reorder")),
    )


def _rate(document: Document, text: str, key: KeyPath) -> Rate:
    return _parsed(document, parse_port_rate, text, key)


def parse_port_rate(text: str) -> Rate:
    """A rate at which a port sends: `90Mbit`, or a share of the rate of its link, `90%`.

    Raises:
        ValueError: not such a rate.
    """
    if text.strip().endswith("%"):
        return Rate(share=_parse_share(text))
    try:
        bps = parse_rate(text)
    except ValueError as error:
        raise ValueError(f"{error}, or a percentage of the port's rate as 90%") from error
    if bps < 8_000:
        raise ValueError(f"{text!r} is below 8 kbit/s, the lowest rate that the kernel enforces")
    return Rate(bps=bps)


def _share(document: Document, text: str, key: KeyPath) -> Fraction:
    return _parsed(document, _parse_share, text, key)


def _parsed(document: Document, parse: Callable[[str], T], text: str, key: KeyPath) -> T:
    try:
        return parse(text)
    except ValueError as error:
        raise document.error(str(error), key) from error


def _parse_share(text: str) -> Fraction:
    number = text.strip().removesuffix("%").strip()
    try:
        value = Fraction(number) / 100 if text.strip().endswith("%") and len(number) < 20 else Fraction(0)
    except (ValueError, ZeroDivisionError):
        value = Fraction(0)
    if not Fraction(1, 10**6) <= value <= 1:
        raise ValueError(f"{text!r} is not a share: write a percentage from 0.0001% to 100%, such as 0.5%")
    return value


def _size(document: Document, value: str | int, key: KeyPath) -> int:
    try:
        size = parse_size(str(value))
    except ValueError as error:
        raise document.error(str(error), key) from error
    if not 1 <= size < 1 << 32:
        raise document.error(f"{value!r} is not between 1 byte and 4 GiB", key)
    return size


def _match(document: Document, section: ProfileRuleSection, key: KeyPath) -> Match:
    for name in ("source", "destination"):
        _require_prefix(document, getattr(section, name), (*key, name))
    return Match(
        opcodes=tuple(_opcodes(document, section.opcode, (*key, "opcode"))),
        source=section.source,
        destination=section.destination,
        source_port=section.source_port,
        queue_pair=section.queue_pair,
        psns=_psns(document, section.psn, (*key, "psn")),
        is_any_traffic=section.traffic == "any",
        arriving=tuple(_ports(document, section.arriving, (*key, "arriving"))),
    )


def _psns(document: Document, value: int | str | None, key: KeyPath) -> tuple[int, int] | None:
    if value is None:
        return None
    low, _, high = str(value).partition("-")
    psns = int(low), int(high or low)
    if not psns[0] <= psns[1] <= PSN_MASK:
        raise document.error(
            f"{value!r} is not a range of PSNs: write two numbers from 0 to {PSN_MASK}, the smaller one first", key
        )
    return psns


def _require_prefix(document: Document, text: str | None, key: KeyPath) -> None:
    try:
        ip_network(text or "0.0.0.0/0")
    except ValueError as error:
        raise document.error(f"{text!r} is not an address or prefix ({error})", key) from error


def _opcodes(document: Document, value: str | int | Sequence[str | int] | None, key: KeyPath) -> Iterable[OpcodeClass]:
    for one in _listed(value):
        if isinstance(one, int):
            yield OpcodeClass(f"0x{one:02x}", (one,))
        elif one in OPCODE_CLASSES:
            yield OPCODE_CLASSES[one]
        else:
            raise document.error(f"{one!r} is not a class of opcodes; there are {', '.join(OPCODE_CLASSES)}", key)


def _ports(document: Document, value: str | Sequence[str] | None, key: KeyPath) -> Iterable[End]:
    for text in _listed(value):
        node, _, port = str(text).rpartition(":")
        if not node or not port:
            raise document.error(f"{text!r} is not a port: write switch:port, or a list", key)
        yield End(node, port)


def _listed(value: str | int | Sequence[str | int] | None) -> Sequence[str | int]:
    if value is None:
        return ()
    return (value,) if isinstance(value, (str, int)) else value
