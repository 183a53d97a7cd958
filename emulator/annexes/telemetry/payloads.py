"""Payloads that a run publishes over MQTT while it is played: one type per kind of topic; the types are the schema."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Final, Literal, TypeAlias, TypedDict

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

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
