"""The exported JSON Schema of profiles accepts what is shipped and refuses what loading refuses."""

from pathlib import Path

import jsonschema
import pytest
import yaml

from emulator.device.profile.file_format import ACTIONS, EXAMPLES, ProfileFile
from emulator.schema import SchemaProblem, decode, json_schema

SHIPPED = sorted((Path(__file__).parents[4] / "lab" / "profiles").glob("*.yaml"))
VALIDATOR = jsonschema.Draft202012Validator(json_schema(ProfileFile))


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shipped_profiles_fit_the_exported_schema(path: Path) -> None:
    VALIDATOR.validate(yaml.safe_load(path.read_text()))


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"rules": [], "colour": "blue"},
        {"rules": [], "name": ""},
        {"rules": [{"drop": {"share": 0.5}}]},
        {"rules": [{"drop": {"every": 0}}]},
        {"rules": [{"police": {"burst": "16K"}}]},
        {"rules": [{"drop": {"every": 1}, "opcode": 256}]},
        {"rules": [{"drop": {"every": 1}, "opcode": []}]},
        {"rules": [{"drop": {"every": 1}, "queue_pair": 1 << 24}]},
        {"rules": [{"drop": {"every": 1}, "source_port": -1}]},
        {"rules": [{"drop": {"every": 1}, "traffic": "tcp"}]},
        {"rules": [{"port": "sw0:p0", "state": "up"}]},
        {"rules": [{"drop": {"every": 1}, "end": 0}]},
    ],
)
def test_the_exported_schema_refuses_what_loading_refuses(document: object) -> None:
    assert not VALIDATOR.is_valid(document)
    with pytest.raises(SchemaProblem):
        decode(document, ProfileFile)


def test_the_exported_schema_explains_keys() -> None:
    rule = json_schema(ProfileFile)["$defs"]["ProfileRuleSection"]["properties"]
    assert rule["start"]["anyOf"][0]["description"] == "seconds into the run"
    assert set(ACTIONS) < set(rule)


@pytest.mark.parametrize("action", ACTIONS)
def test_a_rule_knows_its_action(action: str) -> None:
    value = {
        "drop": {"every": 1},
        "duplicate": {"every": 1},
        "mark": {"every": 1},
        "police": {"rate": EXAMPLES["rate"]},
        "shape": {"rate": EXAMPLES["rate"]},
        "delay": {"time": EXAMPLES["time"]},
        "state": "down",
    }[action]
    assert decode({"rules": [{action: value}]}, ProfileFile).rules[0].action == action
