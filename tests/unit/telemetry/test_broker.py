"""Which broker a URL names."""

from __future__ import annotations

import pytest

from emulator.errors import InputError
from emulator.telemetry.mqtt import Broker


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


@pytest.mark.parametrize("url", ["http://host", "mqtt://", "mqtt://host:x", "mqtt://host/a/#", "mqtt://u:secret@host"])
def test_anything_else_is_refused(url: str) -> None:
    with pytest.raises(InputError) as refused:
        Broker.parse(url)
    assert "secret@" not in str(refused.value)
