from importlib.util import find_spec

import pytest

from emulator.errors import PlanError
from emulator.plugins import BUILT_IN, PluginKind
from emulator.transports.registry import DEFAULT_TRANSPORT, REGISTRY, TRANSPORTS, transport_named


def test_the_first_transport_is_the_default() -> None:
    assert TRANSPORTS[0] == DEFAULT_TRANSPORT == "roce"


@pytest.mark.parametrize("name", TRANSPORTS)
def test_every_transport_is_described_and_implemented(name: str) -> None:
    facts = transport_named(name)
    assert facts.name == name
    assert facts.message_bytes > 0
    assert find_spec(BUILT_IN[PluginKind.TRANSPORTS][name].partition(":")[0]) is not None


def test_options_and_packets_of_transports() -> None:
    assert [facts.name for facts in REGISTRY.values() if facts.options is not None] == ["roce", "verbs"]
    assert [facts.name for facts in REGISTRY.values() if facts.is_rocev2] == ["roce", "verbs"]


def test_an_unknown_transport_is_refused_with_those_there_are() -> None:
    with pytest.raises(PlanError, match="there is no transport 'tcp'; choose from roce, zmq, verbs"):
        transport_named("tcp")
