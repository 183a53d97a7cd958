"""An agent's end of the control conversation: one bidirectional gRPC stream, values in and out."""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

import grpc

from emulator.control import conversation as control
from emulator.errors import ControllerRefusal, RunAborted
from emulator.wire.control.codec import decode_controller, encode_agent
from emulator.wire.control.tls import TlsFiles

_AIO: Any = grpc.aio  # the published type information lags behind: no optional request iterator, no EOF
_OPTIONS = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.enable_http_proxy", 0),
    # A controller whose machine vanished is noticed within a second; one that ended closes the stream at once.
    ("grpc.keepalive_time_ms", 500),
    ("grpc.keepalive_timeout_ms", 500),
    ("grpc.http2.max_pings_without_data", 0),
]


class ControlLink:
    """Async context manager around the stream to `target` (`unix:PATH` or `HOST:PORT`).

    `send` never blocks; `receive` waits for the controller's next value. Questions after the clock are answered here.

    Args:
        target: the controller.
        tls: what both sides show each other; None: nothing is encrypted.
        is_patient: wait until somebody listens there, however long that takes.
    """

    def __init__(self, target: str, *, tls: TlsFiles | None = None, is_patient: bool = False) -> None:
        self._target, self._tls, self._is_patient = target, tls, is_patient
        self._outgoing: asyncio.Queue[control.AgentValue | None] = asyncio.Queue()

    async def __aenter__(self) -> Self:
        options = _OPTIONS if not self._target.startswith("unix:") else _OPTIONS[:3]
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

    def send(self, value: control.AgentValue) -> None:
        """Queue a value for the controller."""
        self._outgoing.put_nowait(value)

    async def receive(self) -> Any:
        """The controller's next value.

        Raises:
            RunAborted: the controller asked to stop, or is gone.
            ControllerRefusal: it will not have this agent.
        """
        while True:
            value = await self._next()
            if isinstance(value, control.Abort):
                raise RunAborted(value.reason)
            if not isinstance(value, control.ClockQuery):
                return value
            self.send(control.ClockReply(value.sent_ns, time.monotonic_ns(), 0))

    async def _next(self) -> Any:
        try:
            message = await self._call.read()
        except grpc.aio.AioRpcError as error:
            raise _why(error) from error
        if message is _AIO.EOF:
            raise RunAborted(await self._ended())
        return decode_controller(message)

    async def drained(self) -> None:
        """The controller has read everything queued, and ended the conversation, or is gone.

        A stream that is given up before takes along what the controller has not read yet.
        """
        await self.written()
        with contextlib.suppress(grpc.aio.AioRpcError):
            while await self._call.read() is not _AIO.EOF:
                pass

    async def written(self) -> None:
        """Everything queued has gone out; nothing more can be sent."""
        self._outgoing.put_nowait(None)
        await self._writer

    async def _ended(self) -> str:
        code, details = await self._call.code(), await self._call.details()
        return details or f"the controller ended the conversation ({code.name})"

    async def _write(self) -> None:
        try:
            while (value := await self._outgoing.get()) is not None:
                if isinstance(value, control.ClockReply):
                    value = replace(value, sent_ns=time.monotonic_ns())
                await self._call.write(encode_agent(value))
            await self._call.done_writing()
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            return  # the reading side sees the same broken stream and says why


def _why(error: grpc.aio.AioRpcError) -> RunAborted:
    if error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED):
        return RunAborted(f"the controller is gone ({error.details()})")
    reason = error.details() or error.code().name
    if error.code() in (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.FAILED_PRECONDITION):
        return ControllerRefusal(reason)
    return RunAborted(reason)
