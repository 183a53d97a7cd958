"""Metrics for Prometheus, over HTTP from a thread of prometheus_client: what a run, or an agent, is doing now."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from emulator.errors import HostError, InputError
from emulator.run_folder.observer import RunObserver
from emulator.statistics.summary import ClassSummary
from emulator.telemetry.reporter import RunFacts
from emulator.units import NS_PER_S

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

    from prometheus_client import CollectorRegistry

_CLASS = ("collective", "group_size", "size_bytes", "algorithm")
LOCAL = "127.0.0.1"
PATH = "/metrics"


def parse_address(text: str) -> tuple[str, int]:
    """`[HOST:]PORT`, this host alone where no host is given.

    Raises:
        InputError: no such address.
    """
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or not 0 <= int(port) < 1 << 16:
        raise InputError(f"{text!r} is no place for metrics: give [HOST:]PORT")
    return host.strip("[]") or LOCAL, int(port)


class MetricsEndpoint:
    """Serves a registry at `http://HOST:PORT/metrics`; a context manager.

    Args:
        registry: of prometheus_client.
        address: host and port; port 0: any that is free.
    """

    def __init__(self, registry: CollectorRegistry, address: tuple[str, int]) -> None:
        self._registry, self._address = registry, address
        self._server: Any = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        """Listen.

        Raises:
            HostError: the address cannot be used.
        """
        from prometheus_client import start_http_server

        host, port = self._address
        try:
            self._server, self._thread = start_http_server(port, addr=host, registry=self._registry)
        except OSError as error:
            raise HostError(f"metrics cannot be served at {host}:{port} ({error.strerror}): choose another") from error
        self._server.set_app(_at_metrics_only(self._server.get_app()))
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
        """Where it is."""
        host, port = self._server.server_address[:2]
        return f"http://{host}:{port}{PATH}"


def _at_metrics_only(metrics: WSGIApplication) -> WSGIApplication:
    """An application that answers at /metrics, gives a hint at /, and knows no other path."""

    def answer(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "")
        if path == PATH:
            return metrics(environ, start_response)
        status = "200 OK" if path in ("", "/") else "404 Not Found"
        start_response(status, [("Content-Type", "text/plain; charset=utf-8")])
        return [f"The metrics are at {PATH}\n".encode()]

    return answer


def new_registry() -> CollectorRegistry:
    """An empty registry.

    Raises:
        HostError: prometheus_client is missing.
    """
    try:
        from prometheus_client import CollectorRegistry
    except ImportError as error:
        raise HostError("metrics need prometheus-client: pip install 'charkha[telemetry]'") from error
    return CollectorRegistry()


class AgentMetrics:
    """The metrics of an agent that stays: what it plays now, and how many runs it has played.

    Args:
        registry: theirs.
        agent: its name.
    """

    def __init__(self, registry: CollectorRegistry, agent: str) -> None:
        from prometheus_client import Counter, Gauge, Info

        self._is_playing = False
        Info("charkha_agent", "the agent", registry=registry).info({"agent": agent})
        self._playing = Gauge("charkha_agent_playing", "1 while a run goes on", registry=registry)
        self._runs = Counter("charkha_agent_runs", "played to their end, well or not", registry=registry)
        self._sent = Gauge(
            "charkha_agent_run_payload_bytes", "sent and acknowledged in the run that goes on", registry=registry
        )
        self._done = Gauge("charkha_agent_run_nodes_done", "of the trace, in the run that goes on", registry=registry)

    def progressed(self, *, bytes_sent: int, nodes_done: int) -> None:
        """A run goes on: payload and completed nodes since it began."""
        self._is_playing = True
        self._playing.set(1)
        self._sent.set(bytes_sent)
        self._done.set(nodes_done)

    def ended(self) -> None:
        """A run is over, if any went on."""
        if self._is_playing:
            self._is_playing = False
            self._playing.set(0)
            self._runs.inc()


class RunMetrics(RunObserver):
    """Keeps the metrics of a run up to date.

    Args:
        registry: theirs.
        facts: of the run.
    """

    def __init__(self, registry: CollectorRegistry, facts: RunFacts) -> None:
        from prometheus_client import Counter, Gauge, Info

        info = Info("charkha_run", "the run that is going on", registry=registry)
        info.info({"run_id": facts.run_id, "trace": facts.trace, "run_folder": facts.run_folder})
        self._ranks = Gauge("charkha_ranks", "ranks of the trace", registry=registry)
        self._ranks.set(facts.ranks)
        self._nodes = Gauge("charkha_communication_nodes", "to be completed in the whole run", registry=registry)
        self._nodes.set(facts.nodes)
        self._iteration = Gauge("charkha_iteration", "being played, negative for warm-up", registry=registry)
        self._done = Counter("charkha_communication_nodes_done", "completed", registry=registry)
        self._jct = Gauge("charkha_jct_seconds", "first start to last end of the last iteration", registry=registry)
        self._sent = Gauge(
            "charkha_agent_payload_bytes", "sent and acknowledged since the run began", ("agent",), registry=registry
        )
        self._cct = Gauge("charkha_cct_seconds", "median of the last iteration", _CLASS, registry=registry)
        self._busbw = Gauge(
            "charkha_busbw_bytes_per_second", "at the median cct of the last iteration", _CLASS, registry=registry
        )

    def iteration_started(self, iteration: int) -> None:
        """See RunObserver."""
        self._iteration.set(iteration)

    def completed(self, nodes: int) -> None:
        """See RunObserver."""
        self._done.inc(nodes)

    def agent_moved(self, agent: str, *, bytes_sent: int, nodes_done: int, waiting_on: str) -> None:
        """See RunObserver."""
        self._sent.labels(agent).set(bytes_sent)

    def iteration_done(self, iteration: int, jct_ns: int) -> None:
        """See RunObserver."""
        self._jct.set(jct_ns / NS_PER_S)

    def summed_up(self, iteration: int, classes: Sequence[ClassSummary]) -> None:
        """See IterationDigest."""
        for one in classes:
            labels = (one.collective, one.members, one.size_bytes, one.algorithm)
            if one.cct_p50_ns is not None:
                self._cct.labels(*labels).set(one.cct_p50_ns / NS_PER_S)
            if one.busbw_bytes_per_s is not None:
                self._busbw.labels(*labels).set(one.busbw_bytes_per_s)
