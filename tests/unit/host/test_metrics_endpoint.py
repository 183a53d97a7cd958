"""Addresses of the metrics endpoint, and what it answers."""

import io
from wsgiref.types import StartResponse, WSGIEnvironment

import pytest

from emulator.errors import InputError
from emulator.host.metrics_endpoint import at_metrics_only, parse_address


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("9100", ("127.0.0.1", 9100)),
        ("0", ("127.0.0.1", 0)),
        ("0.0.0.0:1", ("0.0.0.0", 1)),
        ("[::1]:2", ("::1", 2)),
        ("host:65535", ("host", 65535)),
    ],
)
def test_metrics_are_for_this_host_unless_an_address_is_given(text: str, wanted: tuple[str, int]) -> None:
    assert parse_address(text) == wanted


@pytest.mark.parametrize("text", ["", "host", "host:", "65536", "9" * 5000, "٣", "host:-1", "host:x"])
def test_other_texts_are_not_addresses(text: str) -> None:
    with pytest.raises(InputError, match="is not an address for metrics: write"):
        parse_address(text)


@pytest.mark.parametrize(
    ("path", "status", "body"),
    [
        ("/metrics", "200 OK", b"samples"),
        ("/", "200 OK", b"The metrics are at /metrics\n"),
        ("", "200 OK", b"The metrics are at /metrics\n"),
        ("/metrics/else", "404 Not Found", b"The metrics are at /metrics\n"),
    ],
)
def test_metrics_have_one_path(path: str, status: str, body: bytes) -> None:
    seen: list[str] = []

    def metrics(environ: WSGIEnvironment, start_response: StartResponse) -> list[bytes]:
        start_response("200 OK", [])
        return [b"samples"]

    def start(status: str, *_: object) -> object:
        seen.append(status)
        return io.BytesIO().write

    answer = at_metrics_only(metrics)({"PATH_INFO": path}, start)  # type: ignore[arg-type]
    assert (seen, b"".join(answer)) == ([status], body)
