"""Publishes messages from a thread of its own, so that the broker never delays the run.

The buffer is bounded: while the broker is away the oldest messages are dropped and counted. The rest is sent in order
once it is back. Delivery is at least once (QoS 1): a message that was in flight when the connection broke is sent
again, with the same sequence number.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from types import TracebackType
from typing import TYPE_CHECKING, Self

from emulator.annexes.telemetry.broker import Broker, message_properties
from emulator.annexes.telemetry.messages import BrokerMessage

if TYPE_CHECKING:
    import aiomqtt

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
        with contextlib.closing(self._loop):
            asyncio.set_event_loop(self._loop)
            self._loop.run_until_complete(self._serve())

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
