"""A real MQTT broker on loopback: mosquitto, started and stopped by the test."""

import asyncio
import json
import shutil
import socket
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import aiomqtt

from tests.support.command import wait_for
from tests.support.loopback import free_port
from tests.support.skips import need


class Mosquitto:
    """A broker at a port of its own that can be stopped and started again; it keeps nothing meanwhile."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self._configuration = folder / "mosquitto.conf"
        self._configuration.write_text(f"listener {self.port} 127.0.0.1\nallow_anonymous true\npersistence false\n")
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"mqtt://127.0.0.1:{self.port}"

    def start(self) -> None:
        command = [shutil.which("mosquitto") or "/usr/sbin/mosquitto", "-c", str(self._configuration)]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for(self._answers)

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(10)
            self._process = None

    def _answers(self) -> bool | None:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
            return True
        return None


@contextmanager
def mosquitto(folder: Path) -> Iterator[Mosquitto]:
    """A running broker; skips the test where mosquitto is not installed."""
    need("mosquitto")
    broker = Mosquitto(folder)
    broker.start()
    try:
        yield broker
    finally:
        broker.stop()


class Heard:
    """What a subscriber heard, in order: (topic, payload, whether it was retained)."""

    def __init__(self) -> None:
        self.messages: list[tuple[str, dict[str, Any], bool]] = []
        self._more = asyncio.Condition()

    async def add(self, message: aiomqtt.Message) -> None:
        async with self._more:
            assert isinstance(message.payload, bytes)
            self.messages.append((str(message.topic), json.loads(message.payload), message.retain))
            self._more.notify_all()

    async def until(self, kind: str, **facts: Any) -> dict[str, Any]:
        """The first payload of a topic that ends so and has these facts."""
        async with asyncio.timeout(60), self._more:
            while True:
                for topic, payload, _ in self.messages:
                    if kind in topic.split("/") and facts.items() <= payload.items():
                        return payload
                await self._more.wait()


@asynccontextmanager
async def listening(broker: Mosquitto) -> AsyncIterator[Heard]:
    """A subscriber to everything."""
    heard = Heard()
    async with aiomqtt.Client("127.0.0.1", broker.port) as client:
        await client.subscribe("#", qos=1)

        async def listen() -> None:
            with suppress(aiomqtt.MqttError):
                async for message in client.messages:
                    await heard.add(message)

        task = asyncio.create_task(listen())
        try:
            yield heard
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
