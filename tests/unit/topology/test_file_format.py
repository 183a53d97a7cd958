"""The exported JSON Schema accepts what is shipped and refuses what loading refuses."""

import jsonschema
import pytest
import yaml

from emulator.schema import json_schema
from emulator.topology.file_format import TopologyFile
from tests.support.topologies import SHIPPED

VALIDATOR = jsonschema.Draft202012Validator(json_schema(TopologyFile))


@pytest.mark.parametrize("name", sorted(path.name for path in SHIPPED.glob("*.yaml")))
def test_shipped_files_fit_the_exported_schema(name: str) -> None:
    VALIDATOR.validate(yaml.safe_load((SHIPPED / name).read_text()))


@pytest.mark.parametrize(
    "document",
    [
        {"hosts": []},
        {"hosts": [{"address": "10.0.0.1"}]},
        {"hosts": [{"name": "h", "address": "10.0.0.1", "mtu": 575}]},
        {"hosts": [{"name": "h", "address": "10.0.0.1", "slots": 0}]},
        {"fabric": {"leaves": 1, "spines": 1, "hosts_per_leaf": 1}},
        {"fabric": {"leaves": 0, "spines": 1, "hosts_per_leaf": 1, "rate": "1Gbit"}},
        {"links": [{"endpoints": ["a:b"]}]},
        {"dut": {"kind": "toaster"}},
        {"switches": [{"name": "s", "kind": "assumed"}]},
        {"colour": "blue"},
    ],
)
def test_the_exported_schema_refuses_what_loading_refuses(document: object) -> None:
    assert not VALIDATOR.is_valid(document)


def test_the_exported_schema_explains_keys() -> None:
    definitions = json_schema(TopologyFile)["$defs"]
    assert (
        definitions["LinkSection"]["properties"]["latency"]["anyOf"][0]["description"] == "one way, with its unit: 5us"
    )
    assert definitions["FabricSection"]["required"] == ["leaves", "spines", "hosts_per_leaf", "rate"]
