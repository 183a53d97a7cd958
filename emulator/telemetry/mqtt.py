"""Messages to an MQTT broker from a thread of their own: whatever the broker does, the run does not notice.

The buffer is bounded; while the broker is away the oldest messages go and are counted. What is left is sent in order
once it is back. Delivery is at least once (QoS 1): one that was under way when the connection broke is sent again, with
the same sequence number.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from dataclasses import dataclass
from importlib.util import find_spec
from types import TracebackType
from typing import TYPE_CHECKING, Self
from urllib.parse import unquote, urlsplit

from emulator.errors import HostError, InputError
from emulator.telemetry.messages import PREFIX, Message

if TYPE_CHECKING:
    import aiomqtt
    from paho.mqtt.properties import Properties

logger = logging.getLogger(__name__)
BUFFER_MESSAGES = 10_000
EXPIRY_S = 7 * 86_400
"""How long a broker keeps a retained message of a run."""
_PORTS = {"mqtt": 1883, "mqtts": 8883}
_ACKNOWLEDGED_WITHIN_S = 5.0
_LONGEST_PAUSE_S = 2.0


@dataclass(frozen=True, slots=True)
class Broker:
    """Where to, from `mqtt[s]://[user@]HOST[:PORT][/PREFIX]`."""

    host: str
    port: int
    prefix: str = PREFIX
    username: str | None = None
    password: str | None = None
    is_tls: bool = False

    @classmethod
    def parse(cls, url: str, *, password: str | None = None) -> Self:
        """The broker that a URL names.

        Args:
            url: a host, with or without port, or a URL.
            password: never part of the URL, where other users would see it.

        Raises:
            InputError: no such URL.
        """
        problem = f"{url!r} is no broker: give mqtt://[USER@]HOST[:PORT][/PREFIX], or mqtts:// for TLS"
        try:
            parts = urlsplit(url if "//" in url else f"mqtt://{url}")
            port = parts.port or _PORTS[parts.scheme]
        except (ValueError, KeyError) as error:
            raise InputError(problem) from error
        prefix = parts.path.strip("/")
        if not parts.hostname or any(character in url for character in "+#?"):
            raise InputError(problem)
        if parts.password is not None:
            raise InputError("a password in a URL can be seen by others: set CHARKHA_MQTT_PASSWORD instead")
        user = unquote(parts.username) if parts.username else None
        return cls(parts.hostname, port, prefix or PREFIX, user, password, parts.scheme == "mqtts")

    def client(self, *, will: Message | None = None) -> aiomqtt.Client:
        """A client that is not connected yet; to be called inside an event loop."""
        import aiomqtt
        from paho.mqtt.packettypes import PacketTypes

        expiry = _expiry(PacketTypes.WILLMESSAGE)
        last = None
        if will is not None:
            last = aiomqtt.Will(will.topic, will.payload, qos=1, retain=will.is_retained, properties=expiry)
        return aiomqtt.Client(
            self.host,
            self.port,
            username=self.username,
            password=self.password,
            protocol=aiomqtt.ProtocolVersion.V5,
            will=last,
            timeout=_ACKNOWLEDGED_WITHIN_S,
            keepalive=10,
            tls_params=aiomqtt.TLSParameters() if self.is_tls else None,
        )


def require_mqtt() -> None:
    """Tell before the run that the library is missing.

    Raises:
        HostError: aiomqtt is missing.
    """
    if find_spec("aiomqtt") is None:
        raise HostError("MQTT needs aiomqtt: pip install 'charkha[telemetry]'")


def _expiry(packet: int) -> Properties:
    from paho.mqtt.properties import Properties

    properties = Properties(packet)
    properties.MessageExpiryInterval = EXPIRY_S
    return properties


class MqttPublisher:
    """Sends what it is offered; a context manager whose end gives what is left a moment to go out.

    Args:
        broker: where to.
        will: what the broker says when the connection breaks without a farewell.
        buffer: messages that wait at most.
        grace_s: how long leaving may take.

    Attributes:
        dropped: messages that found no room.
        undelivered: messages that were left when the end came.
    """

    def __init__(self, broker: Broker, *, will: Message, buffer: int = BUFFER_MESSAGES, grace_s: float = 2.0) -> None:
        require_mqtt()
        self._broker, self._will, self._buffer, self._grace_s = broker, will, buffer, grace_s
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="mqtt", daemon=True)
        self._is_started = threading.Event()
        self._under_way: Message | None = None
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

    def offer(self, message: Message) -> None:
        """Send it when the broker takes it; never waits."""
        self._loop.call_soon_threadsafe(self._accept, message)

    def _accept(self, message: Message) -> None:
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
        self._queue: asyncio.Queue[Message] = asyncio.Queue(self._buffer)
        self._leaving = asyncio.Event()
        self._is_started.set()
        sending = asyncio.create_task(self._send_for_ever())
        await self._leaving.wait()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._grace_s):
                await self._queue.join()
        self.undelivered = self._queue.qsize() + (self._under_way is not None)
        sending.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await sending

    async def _send_for_ever(self) -> None:
        """A connection after the other; tenacity paces the attempts."""
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
        raise AssertionError("tenacity retries for ever")

    async def _send_next(self, client: aiomqtt.Client) -> None:
        from paho.mqtt.packettypes import PacketTypes

        if self._under_way is None:
            self._under_way = await self._queue.get()
        message = self._under_way
        expiry = _expiry(PacketTypes.PUBLISH)
        await client.publish(message.topic, message.payload, qos=1, retain=message.is_retained, properties=expiry)
        self._under_way = None
        self._queue.task_done()
