"""`charkha runs export --to otel` against a stand-in for a collector: an HTTP server that decodes the protobuf."""

import gzip
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from tests.support.command import charkha, succeed
from tests.support.runs import collective, ranks, write_run


class Collector(HTTPServer):
    """Keeps what it is sent."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.requests: list[ExportMetricsServiceRequest] = []
        self.status = 200

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        assert self.path == "/v1/metrics"
        self.server.requests.append(ExportMetricsServiceRequest.FromString(body))
        self.send_response(self.server.status)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def run(tmp_path: Path) -> Path:
    samples = collective([0, 0], [4_000_000, 4_000_000], size_bytes=8_000_000)
    dut = {"vendor": "acme", "firmware": "1.2"}
    return write_run(tmp_path / "run", samples, iterations={0: ranks((0, 5_000_000), (0, 6_000_000))}, dut=dut).folder


def test_a_collector_gets_the_figures_of_the_summary(run: Path, collector: Collector, tmp_path: Path) -> None:
    done = succeed("runs", "export", run, "--to", "otel", "--endpoint", collector.url, cwd=tmp_path)
    [[resource]] = [request.resource_metrics for request in collector.requests]
    facts = {one.key: one.value.string_value for one in resource.resource.attributes}
    assert (facts["service.name"], facts["dut.firmware"]) == ("charkha", "1.2")
    metrics = {one.name: one for one in resource.scope_metrics[0].metrics}
    jct = {p.attributes[0].value.string_value: p.as_double for p in metrics["charkha.jct"].gauge.data_points}
    assert jct == {"min": 0.006, "p50": 0.006, "max": 0.006}
    [speed] = metrics["charkha.busbw"].gauge.data_points
    assert (metrics["charkha.busbw"].unit, speed.as_double) == ("By/s", 2e9)
    assert {one.key for one in speed.attributes} == {"collective", "group_size", "size_bytes", "algorithm"}
    sent = sum(len(one.gauge.data_points) + len(one.sum.data_points) for one in metrics.values())
    assert done.stdout == f"{sent} points sent to {collector.url}\n"


def test_a_collector_that_refuses_is_named(run: Path, collector: Collector, tmp_path: Path) -> None:
    collector.status = 400
    done = charkha("runs", "export", run, "--to", "otel", "--endpoint", collector.url, cwd=tmp_path)
    assert done.code == 1
    assert done.error.startswith(f"charkha: {collector.url}: the collector did not take the metrics")


def test_without_a_collector_the_answer_is_one_line(run: Path, tmp_path: Path) -> None:
    done = charkha("runs", "export", run, "--to", "otel", "--endpoint", "http://127.0.0.1:1", cwd=tmp_path)
    assert done.code == 1
    assert done.error.startswith(
        "charkha: http://127.0.0.1:1: no collector takes connections there (Connection refused)"
    )
