"""Which broker a URL names."""

from __future__ import annotations

import pytest

from emulator.annexes.telemetry.broker import Broker
from emulator.errors import InputError


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
