import pytest

from emulator.cli.options.reporting import Place, parse_place


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("8080", Place("127.0.0.1", 8080)),
        ("0.0.0.0:80", Place("0.0.0.0", 80)),
        ("[::1]:80", Place("::1", 80)),
    ],
)
def test_a_place_is_a_port_or_an_address_and_a_port(text: str, place: Place) -> None:
    assert parse_place(text) == place


@pytest.mark.parametrize("text", ["", "trace", "lab/examples/transformer-8r", "70000", "host:80", "-1", "127.0.0.1"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="write a port"):
        parse_place(text)


def test_urls_write_ipv6_in_brackets() -> None:
    assert (Place("::1", 80).host, Place().host) == ("[::1]", "127.0.0.1")
