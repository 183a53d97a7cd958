"""Messages: envelope, topic, whether the broker keeps them."""

from __future__ import annotations

import datetime
import json

import jsonschema
import pytest

from emulator.annexes.telemetry.messages import Composer
from emulator.annexes.telemetry.payloads import AgentState, IterationPayload, StatePayload, schema


def test_messages_are_numbered_from_one_and_have_a_time() -> None:
    composer = Composer("r1")
    first, second = composer.envelope(), composer.envelope()
    assert (first["schema"], first["run_id"], first["sequence"], second["sequence"]) == (1, "r1", 1, 2)
    assert datetime.datetime.fromisoformat(first["time"]).utcoffset() == datetime.timedelta()


def test_a_payload_has_no_key_for_what_is_not_given() -> None:
    composer = Composer("r1")
    payload = json.loads(composer.compose(StatePayload(**composer.envelope(), state="playing")).payload)
    assert set(payload) == {"schema", "run_id", "sequence", "time", "state"}


@pytest.mark.parametrize(
    ("name", "topic"),
    [("a0", "lab/r1/agents/a0"), ("a/0", "lab/r1/agents/a_0"), ("+#\0", "lab/r1/agents/___")],
)
def test_the_name_of_an_agent_is_one_level_of_its_topic(name: str, topic: str) -> None:
    composer = Composer("r1", prefix="lab")
    message = composer.compose(AgentState(**composer.envelope(), agent=name, state="gone"), name=name)
    assert (message.topic, message.is_retained) == (topic, True)
    assert json.loads(message.payload)["agent"] == name


def test_events_are_not_retained() -> None:
    composer = Composer("r1")
    message = composer.compose(IterationPayload(**composer.envelope(), iteration=0, jct_ns=1))
    assert (message.topic, message.is_retained) == ("charkha/r1/iteration", False)


def test_the_last_will_marks_the_run_as_lost_and_replaces_its_state() -> None:
    will = Composer("r1").will()
    assert (will.topic, will.is_retained) == ("charkha/r1/state", True)
    payload = json.loads(will.payload)
    assert payload == {"schema": 1, "run_id": "r1", "sequence": 0, "state": "lost"}
    jsonschema.validate(payload, schema() | {"$ref": "#/$defs/state"})
