"""Compares received frames with the frame that was sent, field by field.

Verdicts are shown as JSON, or as counts per group and outcome with every frame that did not simply pass.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias

from rich.console import Group, RenderableType
from rich.text import Text
from scapy.layers.l2 import Ether

from emulator.views.columns.columns import Column, explain, paragraphs
from emulator.views.terminal.table import FittedTable

_NAMES = {
    "Ethernet.dst": "destination MAC",
    "Ethernet.src": "source MAC",
    "Ethernet.type": "EtherType",
    "802.1Q.vlan": "VLAN",
    "802.1Q.prio": "priority",
    "802.1Q.dei": "drop eligible",
    "IP.ttl": "TTL",
    "IPv6.hlim": "TTL",
    "IP.chksum": "IP checksum",
    "IP.len": "length",
    "IPv6.plen": "length",
    "UDP.len": "length",
    "UDP.chksum": "UDP checksum",
    "Raw.load": "payload",
}
_ROUTING = ("destination MAC", "source MAC", "TTL")
"""Fields that a router changes in every packet; a frame with only these changes passes."""
_CLASS_FIELDS = ("IP.tos", "IPv6.tc")
_FOLLOWS = {"IP checksum": ("TTL", "DSCP", "ECN", "length"), "UDP checksum": ("length", "payload")}
"""Changes that follow from others, and are not reported next to them."""


class FrameOutcome(StrEnum):
    """What the device did with a frame."""

    PASS = "pass"
    ALTERED = "altered"
    DROPPED = "dropped"
    NOT_SENT = "not sent"


@dataclass(frozen=True, slots=True)
class FrameVerdict:
    """The outcome of a frame.

    Attributes:
        changes: fields that differ.
        copies: number of frames received.
        why: reason why the frame was not sent.
    """

    group: str
    name: str
    outcome: FrameOutcome
    changes: Sequence[str] = ()
    copies: int = 0
    why: str = ""


def judge(group: str, name: str, sent: bytes, received: Sequence[bytes]) -> FrameVerdict:
    """The verdict on a frame.

    Args:
        group, name: of the frame.
        sent: the frame.
        received: the frames that the other side received.
    """
    if not received:
        return FrameVerdict(group, name, FrameOutcome.DROPPED)
    changes = changes_between(sent, received[0])
    if changes and all(change.startswith(_ROUTING) for change in changes):
        return FrameVerdict(group, name, FrameOutcome.PASS, ["routed"], len(received))
    return FrameVerdict(group, name, FrameOutcome.ALTERED if changes else FrameOutcome.PASS, changes, len(received))


def changes_between(sent: bytes, received: bytes) -> list[str]:
    """The fields that differ, short ones with their values before and after; padding does not count."""
    if received[: len(sent)] == sent and not any(received[len(sent) :]):
        return []
    before, after = _fields(sent), _fields(received)
    found: dict[str, str] = {}
    for key in [*before, *(key for key in after if key not in before)]:
        if before.get(key) != after.get(key):
            found[key] = _described(key, before.get(key), after.get(key))
    if ("VLAN" in before) != ("VLAN" in after):  # the other fields of a tag come and go with it
        for name in ("EtherType", "priority", "drop eligible"):
            found.pop(name, None)
    for name, causes in _FOLLOWS.items():
        if name in found and any(cause in found for cause in causes):
            del found[name]
    return list(found.values()) or ["bytes after the packet"]


def _described(name: str, before: Any, after: Any) -> str:
    if name == "VLAN" and after is None:
        return f"VLAN {before} removed"
    if name == "VLAN" and before is None:
        return f"VLAN {after} added"
    if name in ("payload", "IP checksum", "UDP checksum") or before is None or after is None:
        return name
    return f"{name} {before} to {after}"


def _fields(frame: bytes) -> dict[str, Any]:
    """Fields of all layers by their usual names."""
    fields: dict[str, Any] = {}
    layer: Any = Ether(frame)
    while layer:
        for field in layer.fields_desc:
            key, value = f"{layer.name}.{field.name}", layer.getfieldval(field.name)
            if key in _CLASS_FIELDS:
                fields |= {"DSCP": value >> 2, "ECN": value & 3}
            elif key in _NAMES:
                fields.setdefault(_NAMES[key], value)
        layer = layer.payload
    return fields


def probe_to_json(verdicts: Sequence[FrameVerdict]) -> dict[str, Any]:
    """Counts per outcome, and every verdict."""
    counts = Counter(one.outcome for one in verdicts)
    return {
        "counts": {outcome.value: counts[outcome] for outcome in FrameOutcome},
        "probes": [dataclasses.asdict(one) for one in verdicts],
    }


_Row: TypeAlias = tuple[str, Counter[FrameOutcome]]
_MEANINGS = {
    FrameOutcome.PASS: "left the DUT unchanged, or routed (MAC addresses and TTL changed)",
    FrameOutcome.ALTERED: "left with other fields changed",
    FrameOutcome.DROPPED: "did not come out",
    FrameOutcome.NOT_SENT: "could not be sent; the list below the matrix gives the reason",
}


def _count(outcome: FrameOutcome) -> Callable[[_Row], str]:
    return lambda row: str(row[1][outcome])


_MATRIX: tuple[Column[_Row], ...] = (
    Column("frames", "group of similar frames", cell=lambda row: row[0], is_number=False),
    *(Column(outcome.value, f"frames that {_MEANINGS[outcome]}", cell=_count(outcome)) for outcome in FrameOutcome),
)
_LIST: tuple[Column[FrameVerdict], ...] = (
    Column("group", "group of similar frames", cell=lambda one: one.group, is_number=False),
    Column("frame", "what distinguishes the frame", cell=lambda one: one.name, is_number=False, folds=20),
    Column("outcome", "as in the matrix", cell=lambda one: one.outcome.value, is_number=False),
    Column(
        "what",
        "changed fields with their values before and after, copies, or why it was not sent",
        cell=lambda one: _details(one),
        is_number=False,
        folds=20,
    ),
)
EXPLAIN = paragraphs(
    explain(_MATRIX, title="Counts:"),
    explain(_LIST, title="Frames that did not simply pass; every frame with --all:"),
)


def render(verdicts: Sequence[FrameVerdict], *, every: bool = False) -> RenderableType:
    """The verdicts for a console.

    Args:
        every: list every frame, not only those that did not simply pass.
    """
    shown = [one for one in verdicts if every or one.outcome is not FrameOutcome.PASS or one.copies > 1]
    parts: list[RenderableType] = [FittedTable(_MATRIX, _groups(verdicts))]
    if shown:
        parts += [Text(), FittedTable(_LIST, shown)]
    return Group(*parts)


def _groups(verdicts: Sequence[FrameVerdict]) -> list[_Row]:
    found: dict[str, Counter[FrameOutcome]] = {}
    for one in verdicts:
        found.setdefault(one.group, Counter())[one.outcome] += 1
    return list(found.items())


def _details(one: FrameVerdict) -> str:
    copies = [f"{one.copies} came out"] if one.copies > 1 else []
    return ", ".join([*one.changes, *copies, *([one.why] * bool(one.why))])
