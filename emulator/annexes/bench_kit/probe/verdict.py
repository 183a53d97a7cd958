"""Compares received frames with the frame that was sent, field by field."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from scapy.layers.l2 import Ether

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
