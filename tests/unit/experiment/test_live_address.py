import pytest

from emulator.experiment.play.live_address import LiveAddress, parse_live_address


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("8080", LiveAddress("127.0.0.1", 8080)),
        ("0.0.0.0:80", LiveAddress("0.0.0.0", 80)),
        ("[::1]:80", LiveAddress("::1", 80)),
    ],
)
def test_a_place_is_a_port_or_an_address_and_a_port(text: str, place: LiveAddress) -> None:
    assert parse_live_address(text) == place


@pytest.mark.parametrize("text", ["", "trace", "lab/examples/transformer-8r", "70000", "host:80", "-1", "127.0.0.1"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="give a port"):
        parse_live_address(text)


def test_urls_write_ipv6_in_brackets() -> None:
    assert (LiveAddress("::1", 80).host, LiveAddress().host) == ("[::1]", "127.0.0.1")
