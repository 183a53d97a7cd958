"""Classes of an iteration while a run is played.

Messages on their way to a broker that is replaced by one in memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator
from typing import Any, cast

import aiomqtt
import pytest
from prometheus_client import generate_latest

from emulator.annexes.telemetry.messages import Broker, BrokerMessage, Composer
from emulator.annexes.telemetry.publishing import (
    PASSWORD_VARIABLE,
    IterationDigest,
    MqttPublisher,
    RunMetrics,
    broker,
    labelled,
    publishing,
)
from emulator.annexes.telemetry.reporter import SummedUp
from emulator.errors import InputError
from emulator.experiment.spec.spec import Observe
from emulator.host.metrics_endpoint import new_registry
from emulator.results.run_folder.observer import AgentMoved, IterationEnded, IterationStarted, Recorded, RunHeader
from tests.support.command import ROOT
from tests.support.runs import collective, columns


class Observer:
    def __init__(self) -> None:
        self.seen: list[tuple[int, list[tuple[str, int, float | None]]]] = []

    def tell(self, event: SummedUp) -> None:
        self.seen.append((event.iteration, [(one.collective, one.count, one.cct_p50_ns) for one in event.classes]))


def test_an_iteration_is_summarised_from_all_its_batches() -> None:
    observer = Observer()
    made = IterationDigest([observer])
    first, second = collective([0, 5], [90, 105])  # the two members arrive in different batches
    made.tell(Recorded(columns([first])))
    made.tell(Recorded(columns([second])))
    made.tell(Recorded(columns(collective([0, 0], [40, 50], kind="all_gather", instance=1))))
    made.tell(IterationEnded(0, 105))
    assert observer.seen == [(0, [("all_reduce", 1, 100), ("all_gather", 1, 50)])]


def test_samples_of_the_next_iteration_wait_for_it() -> None:
    observer = Observer()
    made = IterationDigest([observer])
    both = [*collective([0, 0], [10, 10]), *collective([0, 0], [20, 20], iteration=1)]
    made.tell(Recorded(columns(both[:1])))
    made.tell(Recorded(columns(both[1:])))
    made.tell(IterationEnded(0, 10))
    made.tell(IterationEnded(1, 20))
    assert observer.seen == [(0, [("all_reduce", 1, 10)]), (1, [("all_reduce", 1, 20)])]


def test_an_iteration_is_forgotten_once_it_is_over() -> None:
    observer = Observer()
    made = IterationDigest([observer])
    made.tell(Recorded(columns(collective([0, 0], [10, 10]))))
    made.tell(IterationEnded(0, 10))
    made.tell(IterationEnded(0, 10))
    assert observer.seen == [(0, [("all_reduce", 1, 10)]), (0, [])]


def test_an_iteration_without_samples_has_no_class() -> None:
    observer = Observer()
    made = IterationDigest([observer])
    made.tell(Recorded(columns([])))
    made.tell(IterationEnded(0, 1))
    assert observer.seen == [(0, [])]


def test_a_large_iteration_is_not_summarised() -> None:
    observer = Observer()
    made = IterationDigest([observer], most_rows=1)
    made.tell(Recorded(columns(collective([0, 0], [10, 10]))))
    made.tell(IterationEnded(0, 10))
    assert observer.seen == []


def test_every_observer_receives_the_classes() -> None:
    observers = [Observer(), Observer()]
    made = IterationDigest(observers)
    made.tell(Recorded(columns(collective([0, 0], [10, 10]))))
    made.tell(IterationEnded(0, 10))
    assert observers[0].seen == observers[1].seen != []


WILL = Composer("r1").will()


class MemoryBroker:
    """Takes messages while it is reachable; breaks the connection once, at the message `breaks_at`."""

    def __init__(self, *, is_reachable: bool = True, breaks_at: str = "") -> None:
        self.taken: list[tuple[str, str, bool]] = []
        self.wills: list[BrokerMessage | None] = []
        self.is_reachable, self.breaks_at = is_reachable, [breaks_at]

    @contextlib.asynccontextmanager
    async def client(self, *, will: BrokerMessage | None = None) -> AsyncIterator[MemoryBroker]:
        self.wills.append(will)
        while not self.is_reachable:  # noqa: ASYNC110 (an event would belong to the loop of the publisher)
            await asyncio.sleep(0)
        yield self

    def open(self) -> None:
        self.is_reachable = True

    async def publish(self, topic: str, payload: str, *, qos: int, retain: bool, properties: object) -> None:
        assert qos == 1
        if payload in self.breaks_at:
            self.breaks_at.remove(payload)
            raise aiomqtt.MqttError("connection lost")
        self.taken.append((topic, payload, retain))


def mqtt_publisher(broker: MemoryBroker, **settings: Any) -> MqttPublisher:
    return MqttPublisher(cast(Broker, broker), will=WILL, **settings)


def message(text: str) -> BrokerMessage:
    return BrokerMessage("charkha/r1/progress", text, False)


def test_what_is_offered_arrives_in_order_before_the_end() -> None:
    broker = MemoryBroker()
    with mqtt_publisher(broker) as publisher:
        for number in range(50):
            publisher.offer(message(str(number)))
    assert [payload for _, payload, _ in broker.taken] == [str(number) for number in range(50)]
    assert (publisher.dropped, publisher.undelivered) == (0, 0)
    assert broker.wills == [WILL]


def test_the_broker_is_told_what_to_retain() -> None:
    broker = MemoryBroker()
    with mqtt_publisher(broker) as publisher:
        publisher.offer(BrokerMessage("charkha/r1/state", "on", True))
        publisher.offer(message("1"))
    assert broker.taken == [("charkha/r1/state", "on", True), ("charkha/r1/progress", "1", False)]


def test_a_message_in_flight_when_the_connection_breaks_is_sent_again() -> None:
    broker = MemoryBroker(breaks_at="2")
    with mqtt_publisher(broker) as publisher:
        for number in range(4):
            publisher.offer(message(str(number)))
    assert [payload for _, payload, _ in broker.taken] == ["0", "1", "2", "3"]
    assert len(broker.wills) == 2
    assert publisher.undelivered == 0


def test_messages_that_never_left_are_counted_at_the_end() -> None:
    broker = MemoryBroker(is_reachable=False)
    with mqtt_publisher(broker, grace_s=0.0) as publisher:
        for number in range(3):
            publisher.offer(message(str(number)))
    assert broker.taken == []
    assert publisher.undelivered == 3


def test_while_the_broker_is_away_the_oldest_messages_are_dropped() -> None:
    broker = MemoryBroker(is_reachable=False)
    with mqtt_publisher(broker, buffer=3, grace_s=20) as publisher:
        for number in range(10):
            publisher.offer(message(str(number)))
        publisher._loop.call_soon_threadsafe(broker.open)  # after all offers
    assert [payload for _, payload, _ in broker.taken] == ["7", "8", "9"]
    assert (publisher.dropped, publisher.undelivered) == (7, 0)


FACTS = RunHeader("run-1", "trace", 2, 3, 6, "runs/x")


def test_a_run_that_is_not_published_has_no_observers() -> None:
    with publishing(Observe(), [FACTS], notify=lambda _: None) as observers:
        assert observers == [[]]


def test_the_password_of_the_broker_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PASSWORD_VARIABLE, "hush")
    found = broker("mqtt://me@localhost/lab")
    assert (found.host, found.password) == ("localhost", "hush")


@pytest.mark.parametrize("observe", [Observe(mqtt="http://localhost"), Observe(metrics="everywhere")])
def test_an_address_that_cannot_be_used_is_refused_before_the_run(observe: Observe) -> None:
    with pytest.raises(InputError), publishing(observe, [FACTS], notify=lambda _: None):
        pass


FACTS_RUN_METRICS = RunHeader("r1", "a trace", ranks=2, iterations=2, nodes=8, run_folder="runs/r1")


def test_metrics_follow_a_run() -> None:
    registry = new_registry()
    metrics = RunMetrics(registry, FACTS_RUN_METRICS)
    digest = IterationDigest([metrics])
    metrics.tell(IterationStarted(0))
    metrics.tell(Recorded({"rank": range(2)}))
    digest.tell(Recorded(columns(collective([0, 0], [4000, 4000]))))
    metrics.tell(AgentMoved("agent-0", bytes_sent=77, nodes_done=1, waiting_on=""))
    metrics.tell(IterationEnded(0, 2_000_000))
    digest.tell(IterationEnded(0, 2_000_000))
    labels = {"collective": "all_reduce", "group_size": "2", "size_bytes": "1000", "algorithm": "ring"}
    assert registry.get_sample_value("charkha_jct_seconds") == pytest.approx(0.002)
    assert registry.get_sample_value("charkha_communication_nodes_done_total") == 2
    assert registry.get_sample_value("charkha_cct_seconds", labels) == pytest.approx(4e-6)
    assert registry.get_sample_value("charkha_busbw_bytes_per_second", labels) == pytest.approx(250e6)
    assert registry.get_sample_value("charkha_agent_payload_bytes", {"agent": "agent-0"}) == 77


def test_what_is_known_before_the_run_is_there_at_once_and_warm_up_is_negative() -> None:
    registry = new_registry()
    metrics = RunMetrics(registry, FACTS_RUN_METRICS)
    info = {"run_id": "r1", "trace": "a trace", "run_folder": "runs/r1"}
    assert registry.get_sample_value("charkha_run_info", info) == 1
    assert registry.get_sample_value("charkha_ranks") == 2
    assert registry.get_sample_value("charkha_communication_nodes") == 8
    metrics.tell(IterationStarted(-1))
    assert registry.get_sample_value("charkha_iteration") == -1


def test_a_class_without_bandwidth_has_a_time_only() -> None:
    registry = new_registry()
    digest = IterationDigest([RunMetrics(registry, FACTS_RUN_METRICS)])
    digest.tell(Recorded(columns(collective([0, 0], [4000, 4000], kind="barrier", size_bytes=0, algorithm="x"))))
    digest.tell(IterationEnded(0, 1))
    labels = {"collective": "barrier", "group_size": "2", "size_bytes": "0", "algorithm": "x"}
    assert registry.get_sample_value("charkha_cct_seconds", labels) == pytest.approx(4e-6)
    assert registry.get_sample_value("charkha_busbw_bytes_per_second", labels) is None


def test_the_dashboard_asks_for_metrics_that_exist() -> None:
    registry = new_registry()
    RunMetrics(registry, FACTS_RUN_METRICS)
    names = {sample.name for metric in registry.collect() for sample in metric.samples} | {
        metric.name for metric in registry.collect()
    }
    dashboard = json.loads((ROOT / "lab" / "telemetry" / "grafana-dashboard.json").read_text())
    asked = {
        name
        for panel in dashboard["panels"]
        for target in panel["targets"]
        for name in re.findall(r"charkha_\w+", target["expr"])
    }
    assert asked
    assert asked <= names


def test_the_page_lists_every_metric_that_is_served() -> None:
    registry = new_registry()
    RunMetrics(registry, FACTS_RUN_METRICS)
    page = (ROOT / "docs" / "telemetry.md").read_text()
    listed = set(re.findall(r"`(charkha_\w+)", page.split("## Prometheus")[1].split("`charkha agent")[0]))
    assert {name.removesuffix("_info").removesuffix("_total") for name in listed} == {
        metric.name.removesuffix("_info") for metric in registry.collect()
    }


def test_every_metric_is_there_once_with_the_samples_of_all_jobs() -> None:
    registries = {"a": new_registry(), "b": new_registry()}
    for number, (job, registry) in enumerate(registries.items()):
        metrics = RunMetrics(registry, RunHeader(f"run-{job}", "trace", 2 + number, 3, 6, "runs/x"))
        metrics.tell(AgentMoved("agent-0", bytes_sent=7 + number, nodes_done=1, waiting_on=""))
    lines = generate_latest(labelled(registries)).decode().splitlines()
    assert {'charkha_ranks{job="a"} 2.0', 'charkha_ranks{job="b"} 3.0'} <= set(lines)
    assert 'charkha_agent_payload_bytes{agent="agent-0",job="b"} 8.0' in lines
    assert lines.count("# TYPE charkha_ranks gauge") == 1
