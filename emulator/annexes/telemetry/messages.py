"""Messages of a run to an MQTT broker: payloads with their topics, numbered in order. See docs/telemetry.md."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from emulator.annexes.telemetry.payloads import KINDS, LOST, SCHEMA_VERSION, Envelope, StatePayload, TelemetryPayload

PREFIX = "charkha"


@dataclass(frozen=True, slots=True)
class BrokerMessage:
    """A message for a broker."""

    topic: str
    payload: str
    is_retained: bool


@dataclass(slots=True)
class Composer:
    """Makes the messages of one run.

    Args:
        run_id: of the run.
        prefix: first level of all topics.
        job: name of its job, if it is one of several of a session.
    """

    run_id: str
    prefix: str = PREFIX
    job: str | None = None
    _numbers: Any = field(default_factory=lambda: count(1))

    def envelope(self) -> Envelope:
        """The common part of the next message: schema version, run, sequence number, time."""
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
        number = next(self._numbers)
        return Envelope(schema=SCHEMA_VERSION, run_id=self.run_id, job=self._job, sequence=number, time=now)

    @property
    def _job(self) -> str | UnsetType:
        return UNSET if self.job is None else self.job

    def compose(self, payload: TelemetryPayload, *, name: str = "") -> BrokerMessage:
        """A payload with the topic of its kind.

        Args:
            payload: with an envelope of this composer.
            name: of the agent, for the topic of an agent.
        """
        kind = KINDS[type(payload)]
        topic = "/".join(part for part in (self.prefix, self.run_id, kind, _level(name)) if part)
        return BrokerMessage(topic, msgspec.json.encode(payload).decode(), kind.is_retained)

    def will(self) -> BrokerMessage:
        """The last will: what the broker publishes when the connection to the run breaks."""
        return self.compose(
            StatePayload(schema=SCHEMA_VERSION, run_id=self.run_id, job=self._job, sequence=0, state=LOST)
        )


def _level(name: str) -> str:
    """A name as one level of a topic: without the characters that have a meaning in topics."""
    return "".join("_" if character in "/+#\0" else character for character in name)
