"""Messages: envelope, topic, whether the broker keeps them."""

import datetime
import json

import jsonschema
import pytest

from emulator.annexes.telemetry.messages import (
    AgentState,
    Broker,
    Composer,
    IterationPayload,
    StatePayload,
    TopicKind,
    schema,
)
from emulator.cli.main import main
from emulator.errors import InputError

ENVELOPE = {"schema": 1, "run_id": "r1", "sequence": 1}
VALID = {
    "state": {"state": "aborted", "reason": None},
    "progress": {"iteration": -1, "nodes_done": 0, "nodes": 9, "bytes_sent": 1, "bits_per_second": 8, "dropped": 0},
    "iteration": {"iteration": 0, "jct_ns": 5},
    "completions": {"iteration": 0, "classes": []},
    "agents": {"agent": "a0", "state": "gone"},
}


def test_the_command_prints_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", "watch", "--schema"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(schema()))


def test_without_it_the_command_needs_a_broker(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", "watch"]) == 2
    assert "give the URL of the broker" in capsys.readouterr().err


def test_every_kind_of_topic_has_a_definition() -> None:
    jsonschema.Draft202012Validator.check_schema(schema())
    assert set(VALID) == {kind.value for kind in TopicKind} <= set(schema()["$defs"])


@pytest.mark.parametrize("kind", VALID)
def test_a_payload_needs_its_keys_and_its_envelope(kind: str) -> None:
    wanted = schema() | {"$ref": f"#/$defs/{kind}"}
    payload = ENVELOPE | VALID[kind]
    jsonschema.validate(payload, wanted)
    required = set(payload) - {"reason"}
    for key in required:
        lacking = {name: value for name, value in payload.items() if name != key}
        with pytest.raises(jsonschema.ValidationError, match=f"'{key}' is a required property"):
            jsonschema.validate(lacking, wanted)


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("state", {"state": "resting"}),
        ("state", {"schema": 2}),
        ("state", {"sequence": -1}),
        ("progress", {"nodes_done": "3"}),
        ("agents", {"state": "lost"}),
    ],
)
def test_other_values_do_not_fit(kind: str, change: dict[str, object]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(ENVELOPE | VALID[kind] | change, schema() | {"$ref": f"#/$defs/{kind}"})


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


@pytest.mark.parametrize(
    ("url", "wanted"),
    [
        ("localhost", Broker("localhost", 1883)),
        ("localhost:1884", Broker("localhost", 1884)),
        ("mqtt://me@host/lab/7", Broker("host", 1883, "lab/7", "me")),
        ("mqtts://host", Broker("host", 8883, is_tls=True)),
    ],
)
def test_a_url_names_host_port_prefix_and_user(url: str, wanted: Broker) -> None:
    assert Broker.parse(url) == wanted


@pytest.mark.parametrize("url", ["http://host", "mqtt://", "mqtt://host:x", "mqtt://host/a/#", "mqtt://a+b", "a..b"])
def test_anything_else_is_refused(url: str) -> None:
    with pytest.raises(InputError, match=r"is not a broker: write mqtt://\[USER@\]HOST"):
        Broker.parse(url)


@pytest.mark.parametrize(
    "url", ["mqtt://u:secret@host", "http://u:secret@host", "mqtt://u:secret@host:x", "mqtt://u:secret@h/#"]
)
def test_a_password_in_a_url_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(InputError, match="set CHARKHA_MQTT_PASSWORD instead") as refused:
        Broker.parse(url)
    assert "secret" not in str(refused.value)


def test_names_in_a_url_are_decoded_and_the_password_comes_from_elsewhere() -> None:
    broker = Broker.parse("mqtt://a%40b@host", password="secret")
    assert (broker.username, broker.password) == ("a@b", "secret")
