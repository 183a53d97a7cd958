"""An HTTP endpoint for Prometheus, served by a thread of prometheus_client."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from emulator.errors import HostError, InputError
from emulator.units import digits

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

    from prometheus_client import CollectorRegistry

LOCAL = "127.0.0.1"
PATH = "/metrics"


def parse_address(text: str) -> tuple[str, int]:
    """Host and port of `[HOST:]PORT`; without a host, the loopback address.

    Raises:
        InputError: the text is not an address.
    """
    host, _, port = text.rpartition(":")
    if (number := digits(port)) is None or number >= 1 << 16:
        raise InputError(f"{text!r} is not an address for metrics: write [HOST:]PORT")
    return host.strip("[]") or LOCAL, number


class MetricsEndpoint:
    """Serves a registry at `http://HOST:PORT/metrics`; a context manager.

    Args:
        registry: of the metrics to serve.
        address: host and port; port 0 = any free port.
    """

    def __init__(self, registry: CollectorRegistry, address: tuple[str, int]) -> None:
        self._registry, self._address = registry, address
        self._server: Any = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        """Start to listen.

        Raises:
            HostError: the address cannot be used.
        """
        from prometheus_client import start_http_server

        host, port = self._address
        try:
            self._server, self._thread = start_http_server(port, addr=host, registry=self._registry)
        except (OSError, UnicodeError) as error:
            reason = getattr(error, "strerror", "no such host")
            raise HostError(f"metrics cannot be served at {host}:{port} ({reason}): use another") from error
        self._server.set_app(at_metrics_only(self._server.get_app()))
        _limit_connections(self._server)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        if self._thread is not None:
            self._thread.join()

    @property
    def url(self) -> str:
        """Address to scrape."""
        host, port = self._server.server_address[:2]
        return f"http://{host}:{port}{PATH}"


MOST_CONNECTIONS = 16
"""Of an endpoint: each takes a thread and a descriptor from the process that plays."""


def _limit_connections(server: Any) -> None:
    """Beyond the limit, the connection that has waited longest gives way to a new one."""
    held: dict[socket.socket, None] = {}
    lock, answer = threading.Lock(), server.process_request_thread

    def admit(request: socket.socket, _: object) -> bool:
        with lock:
            if len(held) >= MOST_CONNECTIONS:
                oldest = next(iter(held))
                del held[oldest]
                with contextlib.suppress(OSError):  # it has just ended
                    oldest.shutdown(socket.SHUT_RDWR)
            held[request] = None
        return True

    def answered(request: socket.socket, address: object) -> None:
        try:
            answer(request, address)
        finally:
            with lock:
                held.pop(request, None)

    server.verify_request, server.process_request_thread = admit, answered


def at_metrics_only(metrics: WSGIApplication) -> WSGIApplication:
    """An application that serves metrics at /metrics, names that path at /, and answers 404 elsewhere."""

    def answer(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "")
        if path == PATH:
            return metrics(environ, start_response)
        status = "200 OK" if path in ("", "/") else "404 Not Found"
        start_response(status, [("Content-Type", "text/plain; charset=utf-8")])
        return [f"The metrics are at {PATH}\n".encode()]

    return answer


def new_registry() -> CollectorRegistry:
    """An empty registry for metrics."""
    from prometheus_client import CollectorRegistry

    return CollectorRegistry()
