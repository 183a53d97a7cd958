"""What a run says of itself while it goes on: topics and payloads, see telemetry.schema.json and docs/telemetry.md."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from importlib import resources
from itertools import count
from typing import Any

SCHEMA_VERSION = 1
PREFIX = "charkha"
LOST = "lost"


class Kind(StrEnum):
    """The last part of a topic; an agent's topic has its name behind it."""

    STATE = "state"
    PROGRESS = "progress"
    ITERATION = "iteration"
    COMPLETIONS = "completions"
    AGENT = "agents"

    @property
    def is_retained(self) -> bool:
        """Whether the broker keeps the last one for whoever comes later."""
        return self in (Kind.STATE, Kind.AGENT)


@dataclass(frozen=True, slots=True)
class Message:
    """A message as it goes to a broker."""

    topic: str
    payload: str
    is_retained: bool


@dataclass(slots=True)
class Composer:
    """Makes the messages of one run, numbered in order.

    Args:
        run_id: of the run.
        prefix: what all topics begin with.
    """

    run_id: str
    prefix: str = PREFIX
    _numbers: Any = field(default_factory=lambda: count(1))

    def compose(self, kind: Kind, facts: Mapping[str, Any], *, name: str = "") -> Message:
        """A message with its envelope: schema version, run, sequence number, time.

        Args:
            kind: of message.
            facts: the payload proper.
            name: of the agent, for its topic.
        """
        envelope = {
            "schema": SCHEMA_VERSION,
            "run_id": self.run_id,
            "sequence": next(self._numbers),
            "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds"),
        }
        topic = "/".join(part for part in (self.prefix, self.run_id, kind, _level(name)) if part)
        return Message(topic, json.dumps(envelope | dict(facts)), kind.is_retained)

    def will(self) -> Message:
        """What the broker says of the run when its connection breaks."""
        facts = {"schema": SCHEMA_VERSION, "run_id": self.run_id, "sequence": 0, "state": LOST}
        return Message(f"{self.prefix}/{self.run_id}/{Kind.STATE}", json.dumps(facts), True)


def _level(name: str) -> str:
    """A name as one level of a topic: without what topics give a meaning."""
    return "".join("_" if character in "/+#\0" else character for character in name)


@cache
def schema() -> Mapping[str, Any]:
    """The JSON schema of every payload, by kind."""
    text = resources.files(__package__).joinpath("telemetry.schema.json").read_text(encoding="utf-8")
    loaded: Mapping[str, Any] = json.loads(text)
    return loaded
