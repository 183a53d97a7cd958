"""Messages of a run to an MQTT broker: payloads with their topics, numbered in order. See docs/telemetry.md.

A payload has one type per kind of topic; the types are the schema.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import count
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self, TypeAlias, TypedDict
from urllib.parse import unquote, urlsplit

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from emulator.errors import InputError

if TYPE_CHECKING:
    import aiomqtt
    from paho.mqtt.properties import Properties


SCHEMA_VERSION: Final = 1
LOST: Final = "lost"

_Count: TypeAlias = Annotated[int, Meta(ge=0)]
_Iteration: TypeAlias = Annotated[int, Meta(description="number of the iteration, negative for warm-up")]
_Dropped: TypeAlias = Annotated[int, Meta(ge=0, description="messages dropped because the buffer was full")]


class TopicKind(StrEnum):
    """Third level of a topic; the topic of an agent has the agent's name after it."""

    STATE = "state"
    PROGRESS = "progress"
    ITERATION = "iteration"
    COMPLETIONS = "completions"
    AGENT = "agents"

    @property
    def is_retained(self) -> bool:
        """Whether the broker keeps the last message for clients that subscribe later."""
        return self in (TopicKind.STATE, TopicKind.AGENT)


class Envelope(TypedDict):
    """What every message has: see `TelemetryPayload`."""

    schema: Literal[1]
    run_id: str
    job: str | UnsetType
    sequence: int
    time: str


class TelemetryPayload(Struct, frozen=True, kw_only=True):
    """Common part of all messages."""

    schema: Literal[1]
    run_id: str
    sequence: Annotated[
        int,
        Meta(
            ge=0,
            description="number of the message within the run, from 1; a gap is a dropped message; 0 in the last will",
        ),
    ]
    time: Annotated[str, Meta(extra_json_schema={"format": "date-time"})] | UnsetType = UNSET
    job: Annotated[str, Meta(description="of the session that the run belongs to, if it has several")] | UnsetType = (
        UNSET
    )


class StatePayload(TelemetryPayload, frozen=True, kw_only=True):
    """State of the run; `lost` is set by the broker when the connection breaks."""

    state: Literal["starting", "playing", "writing", "complete", "aborted", "lost"]
    trace: str | UnsetType = UNSET
    ranks: _Count | UnsetType = UNSET
    iterations: Annotated[int, Meta(ge=0, description="to be played, warm-up included")] | UnsetType = UNSET
    nodes: (
        Annotated[int, Meta(ge=0, description="communication nodes to complete, over all iterations and ranks")]
        | UnsetType
    ) = UNSET
    run_folder: str | UnsetType = UNSET
    reason: str | UnsetType | None = UNSET
    dropped: _Dropped | UnsetType = UNSET


class ProgressPayload(TelemetryPayload, frozen=True, kw_only=True):
    """Progress of the run, at most once a second."""

    iteration: _Iteration
    nodes_done: Annotated[int, Meta(ge=0, description="communication nodes completed since the run began")]
    nodes: Annotated[int, Meta(ge=0, description="communication nodes of the whole run")]
    bytes_sent: Annotated[int, Meta(ge=0, description="payload sent and acknowledged since the run began")]
    bits_per_second: Annotated[float, Meta(description="payload rate since the previous message")]
    dropped: _Dropped


class IterationPayload(TelemetryPayload, frozen=True, kw_only=True):
    """An iteration that all ranks completed."""

    iteration: _Iteration
    jct_ns: Annotated[int, Meta(description="job completion time: first start to last end")]


class ClassFigures(Struct, frozen=True, kw_only=True):
    """One class of collectives in one iteration; null is an unknown value."""

    collective: str
    group_size: int
    size_bytes: Annotated[int, Meta(description="array size, counted as in nccl-tests")]
    algorithm: str
    count: int
    cct_p50_ns: float | None
    cct_max_ns: float | None
    busbw_bytes_per_s: float | None


class CompletionsPayload(TelemetryPayload, frozen=True, kw_only=True):
    """The classes of an iteration."""

    iteration: _Iteration
    classes: tuple[ClassFigures, ...]


class AgentState(TelemetryPayload, frozen=True, kw_only=True):
    """State of an agent, at most once a second."""

    agent: str
    state: Literal["playing", "gone"]
    bytes_sent: _Count | UnsetType = UNSET
    nodes_done: Annotated[int, Meta(ge=0, description="nodes of the trace, compute included")] | UnsetType = UNSET
    waiting_on: str | UnsetType = UNSET


KINDS: Mapping[type[TelemetryPayload], TopicKind] = {
    StatePayload: TopicKind.STATE,
    ProgressPayload: TopicKind.PROGRESS,
    IterationPayload: TopicKind.ITERATION,
    CompletionsPayload: TopicKind.COMPLETIONS,
    AgentState: TopicKind.AGENT,
}


def schema() -> dict[str, Any]:
    """The JSON Schema of every payload, under `$defs` by kind."""
    references, definitions = msgspec.json.schema_components(tuple(KINDS))
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Messages that Charkha publishes over MQTT during a run; a definition per kind of topic",
        "$defs": definitions | dict(zip(KINDS.values(), references, strict=True)),
    }


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


EXPIRY_S = 7 * 86_400
"""How long a broker keeps a retained message of a run."""
_PORTS = {"mqtt": 1883, "mqtts": 8883}
_ACKNOWLEDGED_WITHIN_S = 5.0


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker, from `mqtt[s]://[user@]HOST[:PORT][/PREFIX]`; `prefix` is the first level of all topics."""

    host: str
    port: int
    prefix: str = PREFIX
    username: str | None = None
    password: str | None = None
    is_tls: bool = False

    @classmethod
    def parse(cls, url: str, *, password: str | None = None) -> Self:
        """The broker of a URL.

        Args:
            url: a URL, or a host with or without a port.
            password: given separately, because other users can see command lines.

        Raises:
            InputError: the URL is malformed or contains a password.
        """
        problem = f"{url!r} is not a broker: write mqtt://[USER@]HOST[:PORT][/PREFIX], or mqtts:// for TLS"
        try:
            parts = urlsplit(url if "//" in url else f"mqtt://{url}")
            if parts.password is not None:  # checked first: no other error may repeat the URL
                raise InputError("other users can see a password in a URL: set CHARKHA_MQTT_PASSWORD instead")
            port = parts.port or _PORTS[parts.scheme]
            (parts.hostname or "").encode("idna")  # as a resolver does; a UnicodeError is a ValueError
        except (ValueError, KeyError) as error:
            raise InputError(problem) from error
        prefix = parts.path.strip("/")
        if not parts.hostname or any(character in url for character in "+#?"):
            raise InputError(problem)
        user = unquote(parts.username) if parts.username else None
        return cls(parts.hostname, port, prefix or PREFIX, user, password, parts.scheme == "mqtts")

    def client(self, *, will: BrokerMessage | None = None) -> aiomqtt.Client:
        """A client, not connected yet. Call it inside an event loop.

        Args:
            will: last will of the connection.
        """
        import aiomqtt
        from paho.mqtt.packettypes import PacketTypes

        expiry = message_properties(PacketTypes.WILLMESSAGE)
        last = None
        if will is not None:
            last = aiomqtt.Will(will.topic, will.payload, qos=1, retain=will.is_retained, properties=expiry)
        return aiomqtt.Client(
            self.host,
            self.port,
            username=self.username,
            password=self.password,
            protocol=aiomqtt.ProtocolVersion.V5,
            will=last,
            timeout=_ACKNOWLEDGED_WITHIN_S,
            keepalive=10,
            tls_params=aiomqtt.TLSParameters() if self.is_tls else None,
        )


def message_properties(packet: int) -> Properties:
    """MQTT 5 properties of a message: it expires after a week.

    Args:
        packet: type of the packet, of paho's PacketTypes.
    """
    from paho.mqtt.properties import Properties

    properties = Properties(packet)
    properties.MessageExpiryInterval = EXPIRY_S
    return properties
