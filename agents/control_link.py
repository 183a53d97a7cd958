"""An agent's end of the control stream: bidirectional gRPC, control values in and out."""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

import grpc

from emulator.control import conversation as control
from emulator.errors import ControllerRefusal, RunAborted, RunError
from emulator.wire.control.codec import decode_controller, encode_agent
from emulator.wire.control.tls import TlsFiles

_REFUSALS = (
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.FAILED_PRECONDITION,
)
_AIO: Any = grpc.aio  # the published type information lacks the optional request iterator and EOF
_OPTIONS = [
    ("grpc.max_receive_message_length", control.LARGEST_MESSAGE_BYTES),
    ("grpc.max_send_message_length", -1),
    ("grpc.enable_http_proxy", 0),
    # Without a limit the pauses between attempts grow to 120 s, and an agent that has waited long joins too late.
    ("grpc.max_reconnect_backoff_ms", 1000),
    # Detects within a second that the controller's machine is gone. A controller that ends closes the stream at once.
    ("grpc.keepalive_time_ms", 500),
    ("grpc.keepalive_timeout_ms", 500),
    ("grpc.http2.max_pings_without_data", 0),
]


class ControlLink:
    """Async context manager around the stream to `target` (`unix:PATH` or `HOST:PORT`).

    `send` never blocks; `receive` waits for the controller's next value. Clock queries are answered here.

    Args:
        target: the controller.
        tls: certificates; None: the stream is not encrypted.
        is_patient: wait without limit until a controller listens at `target`.
    """

    def __init__(self, target: str, *, tls: TlsFiles | None = None, is_patient: bool = False) -> None:
        self._target, self._tls, self._is_patient = target, tls, is_patient
        self._outgoing: asyncio.Queue[control.Message[control.AgentValue] | None] = asyncio.Queue()

    async def __aenter__(self) -> Self:
        options = _OPTIONS if not self._target.startswith("unix:") else _OPTIONS[:4]
        if self._tls is None:
            self._channel = _AIO.insecure_channel(self._target, options=options)
        else:
            credentials = self._tls.channel_credentials()
            self._channel = _AIO.secure_channel(self._target, credentials, options=options)
        method = self._channel.stream_stream(control.METHOD)
        self._call = method(wait_for_ready=self._is_patient)
        self._writer = asyncio.create_task(self._write())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._outgoing.put_nowait(None)
        await asyncio.wait([self._writer], timeout=1.0)
        self._writer.cancel()
        await self._channel.close()

    def send(self, value: control.AgentValue, job: int | None = None) -> None:
        """Queue a value for the controller; `job`: number of the job that it is about."""
        self._outgoing.put_nowait(control.Message(value, job))

    @property
    def waiting(self) -> int:
        """Values that are queued: many if the controller, or the way to it, is slow."""
        return self._outgoing.qsize()

    async def receive(self) -> control.Message[Any]:
        """The controller's next value, and the job that it is about.

        Raises:
            RunAborted: the controller stopped the run, or the connection to it is lost.
            ControllerRefusal: the controller refuses this agent.
            RemoteProtocolError: the controller sent a damaged message.
        """
        while True:
            message = await self._next()
            value = message.value
            if isinstance(value, control.Abort):
                raise RunAborted(value.reason)
            if not isinstance(value, control.ClockQuery):
                return message
            self.send(control.ClockReply(value.sent_ns, time.monotonic_ns(), 0))

    async def _next(self) -> control.Message[Any]:
        try:
            message = await self._call.read()
        except grpc.aio.AioRpcError as error:
            raise _reason(error) from error
        if message is _AIO.EOF:
            raise RunAborted(await self._closing_reason())
        return decode_controller(message)

    async def drained(self) -> None:
        """Wait until the controller has read everything queued and closed the stream, or is gone.

        Closing the stream first would drop what the controller has not read yet.
        """
        await self.written()
        with contextlib.suppress(grpc.aio.AioRpcError):
            while await self._call.read() is not _AIO.EOF:
                pass

    async def written(self) -> None:
        """Wait until everything queued is sent; nothing can be sent afterwards."""
        self._outgoing.put_nowait(None)
        await self._writer

    async def _closing_reason(self) -> str:
        code, details = await self._call.code(), await self._call.details()
        return details or f"the controller closed the control stream ({code.name})"

    async def _write(self) -> None:
        try:
            while (message := await self._outgoing.get()) is not None:
                value, job = message
                if isinstance(value, control.ClockReply):
                    value = replace(value, sent_ns=time.monotonic_ns())
                await self._call.write(_encode(value, job))
            await self._call.done_writing()
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            return  # the reading side sees the same broken stream and reports the reason


def _encode(value: control.AgentValue, job: int | None) -> bytes:
    """As bytes; in place of what is too large, that this agent gives up."""
    try:
        return encode_agent(value, job)
    except RunError as error:
        return encode_agent(control.Abort(str(error)), job)


def _reason(error: grpc.aio.AioRpcError) -> RunAborted:
    if error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED):
        return RunAborted(f"the controller is gone ({error.details()})")
    reason = error.details() or error.code().name
    if error.code() in _REFUSALS:
        return ControllerRefusal(reason)
    return RunAborted(reason)
