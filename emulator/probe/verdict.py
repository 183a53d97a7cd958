"""What became of a frame: what came out is compared with what went in, field by field."""

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
"""What a router changes in every packet: that alone is not an alteration."""
_CLASS_FIELDS = ("IP.tos", "IPv6.tc")
_FOLLOWS = {"IP checksum": ("TTL", "DSCP", "ECN", "length"), "UDP checksum": ("length", "payload")}
"""A change that another one brings about is not worth a word of its own."""


class Outcome(StrEnum):
    """What became of a frame."""

    PASS = "pass"
    ALTERED = "altered"
    DROPPED = "dropped"
    NOT_SENT = "not sent"


@dataclass(frozen=True, slots=True)
class Verdict:
    """An outcome; `changes` are what is different, `copies` how many came out, `why` says why it was not sent."""

    group: str
    name: str
    outcome: Outcome
    changes: Sequence[str] = ()
    copies: int = 0
    why: str = ""


def judge(group: str, name: str, sent: bytes, received: Sequence[bytes]) -> Verdict:
    """The verdict on a frame of which these came out."""
    if not received:
        return Verdict(group, name, Outcome.DROPPED)
    changes = changes_between(sent, received[0])
    if changes and all(change.startswith(_ROUTING) for change in changes):
        return Verdict(group, name, Outcome.PASS, ["routed"], len(received))
    return Verdict(group, name, Outcome.ALTERED if changes else Outcome.PASS, changes, len(received))


def changes_between(sent: bytes, received: bytes) -> list[str]:
    """Which fields differ, with their values before and after where these are short; padding is none of them."""
    if received[: len(sent)] == sent and not any(received[len(sent) :]):
        return []
    before, after = _fields(sent), _fields(received)
    found: dict[str, str] = {}
    for key in [*before, *(key for key in after if key not in before)]:
        if before.get(key) != after.get(key):
            found[key] = _described(key, before.get(key), after.get(key))
    if ("VLAN" in before) != ("VLAN" in after):  # the rest of a tag comes and goes with it
        for name in ("EtherType", "priority", "drop eligible"):
            found.pop(name, None)
    for name, causes in _FOLLOWS.items():
        if name in found and any(cause in found for cause in causes):
            del found[name]
    return list(found.values()) or ["bytes behind the packet"]


def _described(name: str, before: Any, after: Any) -> str:
    if name == "VLAN" and after is None:
        return f"VLAN {before} removed"
    if name == "VLAN" and before is None:
        return f"VLAN {after} added"
    if name in ("payload", "IP checksum", "UDP checksum") or before is None or after is None:
        return name
    return f"{name} {before} to {after}"


def _fields(frame: bytes) -> dict[str, Any]:
    """Fields of all layers under the names people know."""
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
