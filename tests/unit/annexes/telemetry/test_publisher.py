"""Messages on their way to a broker that is replaced by one in memory."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any, cast

import aiomqtt

from emulator.annexes.telemetry.broker import Broker
from emulator.annexes.telemetry.messages import BrokerMessage, Composer
from emulator.annexes.telemetry.publisher import MqttPublisher

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


def publishing(broker: MemoryBroker, **settings: Any) -> MqttPublisher:
    return MqttPublisher(cast(Broker, broker), will=WILL, **settings)


def message(text: str) -> BrokerMessage:
    return BrokerMessage("charkha/r1/progress", text, False)


def test_what_is_offered_arrives_in_order_before_the_end() -> None:
    broker = MemoryBroker()
    with publishing(broker) as publisher:
        for number in range(50):
            publisher.offer(message(str(number)))
    assert [payload for _, payload, _ in broker.taken] == [str(number) for number in range(50)]
    assert (publisher.dropped, publisher.undelivered) == (0, 0)
    assert broker.wills == [WILL]


def test_the_broker_is_told_what_to_retain() -> None:
    broker = MemoryBroker()
    with publishing(broker) as publisher:
        publisher.offer(BrokerMessage("charkha/r1/state", "on", True))
        publisher.offer(message("1"))
    assert broker.taken == [("charkha/r1/state", "on", True), ("charkha/r1/progress", "1", False)]


def test_a_message_in_flight_when_the_connection_breaks_is_sent_again() -> None:
    broker = MemoryBroker(breaks_at="2")
    with publishing(broker) as publisher:
        for number in range(4):
            publisher.offer(message(str(number)))
    assert [payload for _, payload, _ in broker.taken] == ["0", "1", "2", "3"]
    assert len(broker.wills) == 2
    assert publisher.undelivered == 0


def test_messages_that_never_left_are_counted_at_the_end() -> None:
    broker = MemoryBroker(is_reachable=False)
    with publishing(broker, grace_s=0.0) as publisher:
        for number in range(3):
            publisher.offer(message(str(number)))
    assert broker.taken == []
    assert publisher.undelivered == 3


def test_while_the_broker_is_away_the_oldest_messages_are_dropped() -> None:
    broker = MemoryBroker(is_reachable=False)
    with publishing(broker, buffer=3, grace_s=20) as publisher:
        for number in range(10):
            publisher.offer(message(str(number)))
        publisher._loop.call_soon_threadsafe(broker.open)  # after all offers
    assert [payload for _, payload, _ in broker.taken] == ["7", "8", "9"]
    assert (publisher.dropped, publisher.undelivered) == (7, 0)
