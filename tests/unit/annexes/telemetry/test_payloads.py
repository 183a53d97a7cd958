"""The published schema of payloads."""

from __future__ import annotations

import json

import jsonschema
import pytest

from emulator.annexes.telemetry.payloads import TopicKind, schema
from emulator.cli.main import main

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
