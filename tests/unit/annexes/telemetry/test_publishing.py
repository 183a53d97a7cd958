"""Classes of an iteration while a run is played.

Messages on their way to a broker that is replaced by one in memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator, Iterator
from typing import Any, cast

import aiomqtt
import pytest
from prometheus_client import CollectorRegistry, generate_latest

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


def recorded(*samples: dict[str, Any]) -> Recorded:
    return Recorded(columns(list(samples)))


FIRST, SECOND = collective([0, 5], [90, 105])
GATHERED = collective([0, 0], [40, 50], kind="all_gather", instance=1)
SHORT, NEXT = collective([0, 0], [10, 10]), collective([0, 0], [20, 20], iteration=1, instance=1)


@pytest.mark.parametrize(
    ("told", "seen"),
    [
        pytest.param(
            [recorded(FIRST), recorded(SECOND), recorded(*GATHERED), IterationEnded(0, 105)],
            [(0, [("all_reduce", 1, 100), ("all_gather", 1, 50)])],
            id="it is summarised from all its batches, also if members of a group arrive in different ones",
        ),
        pytest.param(
            [recorded(SHORT[0]), recorded(SHORT[1], *NEXT), IterationEnded(0, 10), IterationEnded(1, 20)],
            [(0, [("all_reduce", 1, 10)]), (1, [("all_reduce", 1, 20)])],
            id="samples of the next iteration wait for it",
        ),
        pytest.param(
            [recorded(*SHORT), IterationEnded(0, 10), IterationEnded(0, 10)],
            [(0, [("all_reduce", 1, 10)]), (0, [])],
            id="it is forgotten once it is over",
        ),
        pytest.param([recorded(), IterationEnded(0, 1)], [(0, [])], id="it has no class without samples"),
    ],
)
def test_the_classes_of_an_iteration(told: list[Recorded | IterationEnded], seen: list[Any]) -> None:
    observer = Observer()
    made = IterationDigest([observer])
    for event in told:
        made.tell(event)
    assert observer.seen == seen


def test_a_large_iteration_is_not_summarised() -> None:
    observer = Observer()
    made = IterationDigest([observer], most_rows=1)
    made.tell(recorded(*SHORT))
    made.tell(IterationEnded(0, 10))
    assert observer.seen == []


def test_every_observer_receives_the_classes() -> None:
    observers = [Observer(), Observer()]
    made = IterationDigest(observers)
    made.tell(recorded(*SHORT))
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


@contextlib.contextmanager
def publisher(broker: MemoryBroker, *texts: str, **settings: Any) -> Iterator[MqttPublisher]:
    """A publisher that was offered messages of progress; it ends with the context."""
    with MqttPublisher(cast(Broker, broker), will=WILL, **settings) as made:
        for text in texts:
            made.offer(BrokerMessage("charkha/r1/progress", text, False))
        yield made


def test_what_is_offered_arrives_in_order_before_the_end() -> None:
    broker, texts = MemoryBroker(), [str(number) for number in range(50)]
    with publisher(broker, *texts) as made:
        pass
    assert [payload for _, payload, _ in broker.taken] == texts
    assert (made.dropped, made.undelivered) == (0, 0)
    assert broker.wills == [WILL]


def test_the_broker_is_told_what_to_retain() -> None:
    broker = MemoryBroker()
    with publisher(broker, "1") as made:
        made.offer(BrokerMessage("charkha/r1/state", "on", True))
    assert broker.taken == [("charkha/r1/progress", "1", False), ("charkha/r1/state", "on", True)]


def test_a_message_in_flight_when_the_connection_breaks_is_sent_again() -> None:
    broker = MemoryBroker(breaks_at="2")
    with publisher(broker, *"0123") as made:
        pass
    assert [payload for _, payload, _ in broker.taken] == [*"0123"]
    assert len(broker.wills) == 2
    assert made.undelivered == 0


def test_messages_that_never_left_are_counted_at_the_end() -> None:
    broker = MemoryBroker(is_reachable=False)
    with publisher(broker, *"012", grace_s=0.0) as made:
        pass
    assert broker.taken == []
    assert made.undelivered == 3


def test_while_the_broker_is_away_the_oldest_messages_are_dropped() -> None:
    broker = MemoryBroker(is_reachable=False)
    with publisher(broker, *"0123456789", buffer=3, grace_s=20) as made:
        made._loop.call_soon_threadsafe(broker.open)  # after all offers
    assert [payload for _, payload, _ in broker.taken] == [*"789"]
    assert (made.dropped, made.undelivered) == (7, 0)


FACTS = RunHeader("r1", "a trace", ranks=2, iterations=2, nodes=8, run_folder="runs/r1")


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


def run_metrics(facts: RunHeader = FACTS) -> tuple[RunMetrics, CollectorRegistry]:
    """Metrics of a run that begins, and where they are served from."""
    registry = new_registry()
    return RunMetrics(registry, facts), registry


def test_metrics_follow_a_run() -> None:
    metrics, registry = run_metrics()
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
    metrics, registry = run_metrics()
    info = {"run_id": "r1", "trace": "a trace", "run_folder": "runs/r1"}
    assert registry.get_sample_value("charkha_run_info", info) == 1
    assert registry.get_sample_value("charkha_ranks") == 2
    assert registry.get_sample_value("charkha_communication_nodes") == 8
    metrics.tell(IterationStarted(-1))
    assert registry.get_sample_value("charkha_iteration") == -1


def test_a_class_without_bandwidth_has_a_time_only() -> None:
    metrics, registry = run_metrics()
    digest = IterationDigest([metrics])
    digest.tell(Recorded(columns(collective([0, 0], [4000, 4000], kind="barrier", size_bytes=0, algorithm="x"))))
    digest.tell(IterationEnded(0, 1))
    labels = {"collective": "barrier", "group_size": "2", "size_bytes": "0", "algorithm": "x"}
    assert registry.get_sample_value("charkha_cct_seconds", labels) == pytest.approx(4e-6)
    assert registry.get_sample_value("charkha_busbw_bytes_per_second", labels) is None


def test_the_dashboard_asks_for_metrics_that_exist() -> None:
    _, registry = run_metrics()
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
    _, registry = run_metrics()
    page = (ROOT / "docs" / "telemetry.md").read_text()
    listed = set(re.findall(r"`(charkha_\w+)", page.split("## Prometheus")[1].split("`charkha agent")[0]))
    assert {name.removesuffix("_info").removesuffix("_total") for name in listed} == {
        metric.name.removesuffix("_info") for metric in registry.collect()
    }


def test_every_metric_is_there_once_with_the_samples_of_all_jobs() -> None:
    registries = {}
    for number, job in enumerate("ab"):
        metrics, registries[job] = run_metrics(RunHeader(f"run-{job}", "trace", 2 + number, 3, 6, "runs/x"))
        metrics.tell(AgentMoved("agent-0", bytes_sent=7 + number, nodes_done=1, waiting_on=""))
    lines = generate_latest(labelled(registries)).decode().splitlines()
    assert {'charkha_ranks{job="a"} 2.0', 'charkha_ranks{job="b"} 3.0'} <= set(lines)
    assert 'charkha_agent_payload_bytes{agent="agent-0",job="b"} 8.0' in lines
    assert lines.count("# TYPE charkha_ranks gauge") == 1
