"""Publishing a run while it is played: to an MQTT broker, and for Prometheus.

Completions are summarised by class, one iteration at a time. Messages are published from a thread of its own, so that
the broker never delays the run. The buffer is bounded: while the broker is away the oldest messages are dropped and
counted. The rest is sent in order once it is back. Delivery is at least once (QoS 1): a message that was in flight when
the connection broke is sent again, with the same sequence number.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import pairwise, repeat
from types import TracebackType
from typing import TYPE_CHECKING, Self

import pyarrow as pa

from emulator.annexes.telemetry.messages import Broker, BrokerMessage, Composer, message_properties
from emulator.annexes.telemetry.reporter import ClassObserver, SummedUp, TelemetryReporter
from emulator.errors import EmulatorError, RunAborted
from emulator.experiment.spec.spec import Observe
from emulator.host.metrics_endpoint import MetricsEndpoint, new_registry, parse_address
from emulator.results.run_folder.manifest import ABORTED, COMPLETE
from emulator.results.run_folder.observer import (
    AgentMoved,
    IterationEnded,
    IterationStarted,
    Recorded,
    RunEvent,
    RunHeader,
    RunObserver,
)
from emulator.results.run_folder.schema import SAMPLES_SCHEMA, to_batch
from emulator.results.statistics.class_summary import ClassSummary, summarise_classes
from emulator.results.statistics.metric import Scope
from emulator.results.statistics.metrics import METRICS
from emulator.results.statistics.samples.collectives import MERGE_COLUMNS, merge
from emulator.results.statistics.samples.measured_rows import block_starts, to_ints

if TYPE_CHECKING:
    import aiomqtt
    from prometheus_client import CollectorRegistry, Metric

LARGEST_ITERATION = 1_000_000
"""Rows; larger iterations are not summarised, because that would keep the controller from its work."""
_SCHEMA = pa.schema([SAMPLES_SCHEMA.field(name) for name in MERGE_COLUMNS])


class IterationDigest:
    """Collects the samples of an iteration and passes its classes on, unless the iteration is too large.

    Args:
        observers: receive the classes, in this order.
        most_rows: of an iteration that is summarised.
    """

    def __init__(self, observers: Sequence[ClassObserver], *, most_rows: int = LARGEST_ITERATION) -> None:
        self._observers, self._most_rows = observers, most_rows
        self._rows: dict[int, list[pa.RecordBatch]] = {}

    def tell(self, event: RunEvent) -> None:
        """See RunObserver."""
        match event:
            case Recorded(samples):
                batch = to_batch(_SCHEMA, {name: samples[name] for name in MERGE_COLUMNS if name in samples})
                iteration = to_ints(batch["iteration"])
                starts = block_starts(iteration)
                for start, end in pairwise([*starts.tolist(), len(iteration)]):
                    self._rows.setdefault(int(iteration[start]), []).append(batch.slice(start, end - start))
            case IterationEnded(iteration):
                self._sum_up(iteration)

    def _sum_up(self, iteration: int) -> None:
        batches = self._rows.get(iteration, [])
        self._rows = {number: rows for number, rows in self._rows.items() if number > iteration}
        if sum(batch.num_rows for batch in batches) > self._most_rows:
            return
        table = pa.Table.from_batches(batches, _SCHEMA).unify_dictionaries().combine_chunks()
        event = SummedUp(iteration, summarise_classes(merge(table)))
        for one in self._observers:
            one.tell(event)


logger = logging.getLogger(__name__)
BUFFER_MESSAGES = 10_000
_LONGEST_PAUSE_S = 2.0


class MqttPublisher:
    """Publishes the messages it is offered; a context manager that leaves time to send the last ones.

    Args:
        broker: destination.
        will: published by the broker if the connection breaks without a disconnect.
        buffer: size of the buffer, messages.
        grace_s: time to send the remaining messages at the end, seconds.

    Attributes:
        dropped: messages dropped because the buffer was full.
        undelivered: messages not sent at the end.
    """

    def __init__(
        self, broker: Broker, *, will: BrokerMessage, buffer: int = BUFFER_MESSAGES, grace_s: float = 2.0
    ) -> None:
        self._broker, self._will, self._buffer, self._grace_s = broker, will, buffer, grace_s
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="mqtt", daemon=True)
        self._is_started = threading.Event()
        self._under_way: BrokerMessage | None = None
        self.dropped = self.undelivered = 0

    def __enter__(self) -> Self:
        self._thread.start()
        self._is_started.wait()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._leaving.set)
        self._thread.join()

    def offer(self, message: BrokerMessage) -> None:
        """Queue a message; never waits."""
        self._loop.call_soon_threadsafe(self._accept, message)

    def _accept(self, message: BrokerMessage) -> None:
        if self._queue.full():
            self._queue.get_nowait()
            self._queue.task_done()
            self.dropped += 1
        self._queue.put_nowait(message)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:  # ends what a client left that never connected
            runner.run(self._serve())

    async def _serve(self) -> None:
        self._queue: asyncio.Queue[BrokerMessage] = asyncio.Queue(self._buffer)
        self._leaving = asyncio.Event()
        self._is_started.set()
        sending = asyncio.create_task(self._send_forever())
        await self._leaving.wait()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._grace_s):
                await self._queue.join()
        self.undelivered = self._queue.qsize() + (self._under_way is not None)
        sending.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await sending

    async def _send_forever(self) -> None:
        """Reconnect whenever the connection breaks; tenacity paces the attempts."""
        import aiomqtt

        while True:
            async with contextlib.AsyncExitStack() as stack:
                try:
                    client = await self._connect(stack)
                    while True:
                        await self._send_next(client)
                except aiomqtt.MqttError as error:
                    logger.debug("connection to the broker broke: %s", error)

    async def _connect(self, stack: contextlib.AsyncExitStack) -> aiomqtt.Client:
        import aiomqtt
        import tenacity

        async for attempt in tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception_type(aiomqtt.MqttError),
            wait=tenacity.wait_exponential(multiplier=0.1, max=_LONGEST_PAUSE_S),
        ):
            with attempt:
                return await stack.enter_async_context(self._broker.client(will=self._will))
        raise AssertionError("tenacity retries forever")

    async def _send_next(self, client: aiomqtt.Client) -> None:
        from paho.mqtt.packettypes import PacketTypes

        if self._under_way is None:
            self._under_way = await self._queue.get()
        message = self._under_way
        expiry = message_properties(PacketTypes.PUBLISH)
        await client.publish(message.topic, message.payload, qos=1, retain=message.is_retained, properties=expiry)
        self._under_way = None
        self._queue.task_done()


PASSWORD_VARIABLE = "CHARKHA_MQTT_PASSWORD"
Notify = Callable[[str], None]


def broker(url: str) -> Broker:
    """The broker of a URL, with the password from the environment.

    Raises:
        InputError: not a URL of a broker.
    """
    return Broker.parse(url, password=os.environ.get(PASSWORD_VARIABLE))


@contextmanager
def publishing(
    observe: Observe, facts: Sequence[RunHeader], *, notify: Notify, jobs: Sequence[str] | None = None
) -> Iterator[list[list[RunObserver]]]:
    """Observers that publish runs over MQTT and for Prometheus while the context is open, for each run.

    Args:
        observe: where to publish.
        facts: of the runs.
        notify: receives lines for the user.
        jobs: names of the runs' jobs, which tell them apart; None: there is one.

    Raises:
        InputError: an address cannot be used.
        HostError: a library is missing, or the port for metrics is in use.
    """
    publishers: list[list[RunMetrics | TelemetryReporter]] = [[] for _ in facts]
    with ExitStack() as stack:
        if observe.metrics is not None:
            registries = [new_registry() for _ in facts]
            for own, registry, one in zip(publishers, registries, facts, strict=True):
                own.append(RunMetrics(registry, one))
            served = registries[0] if jobs is None else labelled(dict(zip(jobs, registries, strict=True)))
            endpoint = stack.enter_context(MetricsEndpoint(served, parse_address(observe.metrics)))
            notify(f"metrics at {endpoint.url}")
        if observe.mqtt is not None:
            target = broker(observe.mqtt)
            for own, one, job in zip(publishers, facts, jobs or repeat(None, 1), strict=True):
                own.append(stack.enter_context(_published(target, one, job=job, notify=notify)))
        yield [[*own, IterationDigest(own)] if own else [] for own in publishers]


@contextmanager
def _published(target: Broker, facts: RunHeader, *, job: str | None, notify: Notify) -> Iterator[TelemetryReporter]:
    composer = Composer(facts.run_id, target.prefix, job)
    publisher = MqttPublisher(target, will=composer.will())
    with publisher:
        reporter = TelemetryReporter(facts, composer, publisher)
        reporter.begin()
        try:
            yield reporter
        except BaseException as error:
            reporter.end(ABORTED, _reason(error))
            raise
        else:
            reporter.end(COMPLETE, None)
    lost = publisher.dropped + publisher.undelivered
    if lost:
        notify(f"{lost} telemetry messages did not reach {target.host}:{target.port}")


def _reason(error: BaseException) -> str:
    if isinstance(error, RunAborted):
        return error.reason
    return str(error) if isinstance(error, EmulatorError) else type(error).__name__


LIVE = ("iteration_jct", "cct_p50", "busbw")
"""The metrics of the registry that a run publishes while it is played."""
_OF_CLASSES = [name for name in LIVE if METRICS[name].scope is Scope.CLASS]
_CLASS = ("collective", "group_size", "size_bytes", "algorithm")


class RunMetrics:
    """Keeps the metrics of a run up to date.

    Args:
        registry: where the metrics are registered.
        facts: of the run.
    """

    def __init__(self, registry: CollectorRegistry, facts: RunHeader) -> None:
        from prometheus_client import Counter, Gauge, Info

        info = Info("charkha_run", "the current run", registry=registry)
        info.info({"run_id": facts.run_id, "trace": facts.trace, "run_folder": facts.run_folder})
        self._ranks = Gauge("charkha_ranks", "ranks of the trace", registry=registry)
        self._ranks.set(facts.ranks)
        self._nodes = Gauge("charkha_communication_nodes", "communication nodes of the whole run", registry=registry)
        self._nodes.set(facts.nodes or math.nan)
        self._iteration = Gauge(
            "charkha_iteration", "number of the current iteration, negative for warm-up", registry=registry
        )
        self._done = Counter("charkha_communication_nodes_done", "communication nodes completed", registry=registry)
        self._metrics = {
            name: Gauge(
                one.prometheus_name,
                f"{one.meaning}; the last iteration" if one.scope is Scope.CLASS else f"{one.what}; the last",
                _CLASS if one.scope is Scope.CLASS else (),
                registry=registry,
            )
            for name, one in METRICS.items()
            if name in LIVE
        }
        self._sent = Gauge(
            "charkha_agent_payload_bytes",
            "payload sent and acknowledged since the run began",
            ("agent",),
            registry=registry,
        )

    def tell(self, event: RunEvent | SummedUp) -> None:
        """See RunObserver and ClassObserver."""
        match event:
            case IterationStarted(iteration):
                self._iteration.set(iteration)
            case Recorded():
                self._done.inc(event.nodes)
            case AgentMoved():
                self._sent.labels(event.agent).set(event.bytes_sent)
            case IterationEnded():
                self._metrics["iteration_jct"].set(METRICS["iteration_jct"].published(event.jct_ns))
            case SummedUp():
                self._sum_up(event.classes)

    def _sum_up(self, classes: Sequence[ClassSummary]) -> None:
        for one in classes:
            labels = (one.collective, one.members, one.size_bytes, one.algorithm)
            for metric in map(METRICS.__getitem__, _OF_CLASSES):
                value = getattr(one, metric.field)
                if value is not None:
                    self._metrics[metric.name].labels(*labels).set(metric.published(value))


LABEL = "job"


def labelled(registries: Mapping[str, CollectorRegistry]) -> CollectorRegistry:
    """A registry with the metrics of all jobs; `registries`: job → its metrics."""
    together = new_registry()
    together.register(_Jobs(registries))
    return together


class _Jobs:
    """A collector of prometheus_client."""

    def __init__(self, registries: Mapping[str, CollectorRegistry]) -> None:
        self._registries = registries

    def collect(self) -> Iterator[Metric]:
        """Every metric once, with the samples of all jobs."""
        found: dict[str, Metric] = {}
        for job, registry in self._registries.items():
            for metric in registry.collect():
                samples = [one._replace(labels={LABEL: job, **one.labels}) for one in metric.samples]
                known = found.setdefault(metric.name, metric)
                known.samples = samples if known is metric else known.samples + samples
        yield from found.values()
