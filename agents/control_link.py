"""An agent's end of the control stream: bidirectional gRPC, control values in and out."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import grpc

from emulator.control import conversation as control
from emulator.control.authentication import Binding, Purpose, code_of, is_code_of
from emulator.control.wire.codec import decode_controller, encode_agent
from emulator.control.wire.descriptions import Opener
from emulator.control.wire.tls import TlsFiles
from emulator.errors import ControllerRefusal, RemoteProtocolError, RunAborted, RunError
from emulator.host.core_wait import CoreTime
from emulator.units import NS_PER_S

_REFUSALS = (
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.FAILED_PRECONDITION,
)
_HEALTH = "/grpc.health.v1.Health/Check"
_PING_S = 10
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
        patience_s: how long the controller may take for its first word; None: wait without limit until one listens.
        report: called once with each reason why TLS fails meanwhile.
    """

    def __init__(
        self,
        target: str,
        *,
        tls: TlsFiles | None = None,
        patience_s: float | None = None,
        report: Callable[[str], None] = lambda line: None,
    ) -> None:
        self._target, self._tls, self._is_patient, self._report = target, tls, patience_s is None, report
        self._outgoing: asyncio.Queue[control.JobMessage[control.AgentValue] | None] = asyncio.Queue()
        self._decode: Callable[[bytes], control.JobMessage[Any]] = decode_controller
        self.run_id = ""
        # On a Unix socket the controller is the process that started this one.
        self._lease = Lease(core_time=partial(_core_time, os.getppid()) if target.startswith("unix:") else lambda: None)
        if patience_s is not None:
            self._lease.give(patience_s)
        self._is_reading = False
        self._expiry: RunAborted | None = None

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
        self._tls_watch = asyncio.create_task(self._watch_tls()) if self._is_patient and self._tls else None
        self._lease_watch = asyncio.create_task(self._watch_lease())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._outgoing.put_nowait(None)
        await asyncio.wait([self._writer], timeout=1.0)
        self._writer.cancel()
        if self._tls_watch is not None:
            self._tls_watch.cancel()
        self._lease_watch.cancel()
        await self._channel.close()

    def send(self, value: control.AgentValue, job: int | None = None) -> None:
        """Queue a value for the controller; `job`: number of the job that it is about."""
        self._outgoing.put_nowait(control.JobMessage(value, job))

    @property
    def waiting(self) -> int:
        """Values that are queued: many if the controller, or the way to it, is slow."""
        return self._outgoing.qsize()

    async def join(self, hello: control.Hello, key: bytes) -> None:
        """Introduce the agent; both sides prove that they have the key. The controller's next value is Welcome.

        Raises:
            ControllerRefusal: the controller does not have the key, or refuses this agent.
            RunAborted: the connection is lost.
            RemoteProtocolError: the controller does not speak as it must.
        """
        self.send(hello)
        challenge = (await self.receive()).value
        if not isinstance(challenge, control.Challenge):
            raise RemoteProtocolError(f"the controller sent {type(challenge).__name__} instead of Challenge")
        binding = Binding(challenge.run_id, hello.agent, hello.nonce, challenge.nonce)
        theirs = binding.statement(Purpose.CONTROLLER)
        if not any(is_code_of(key, theirs, code) for code in challenge.codes):
            raise ControllerRefusal("the token is not the controller's: nothing was sent that could be used with it")
        identity = None if self._tls is None else self._tls.parts()
        self._decode = Opener(binding, key, None if identity is None else identity[2]).decode
        self.send(control.Proof(code_of(key, binding.statement(Purpose.AGENT))))
        self.run_id = challenge.run_id

    async def receive(self) -> control.JobMessage[Any]:
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
            if isinstance(value, control.Renew):
                self._lease.give(value.lease_ms / 1000)
                continue
            if isinstance(value, control.Begin | control.Start):
                self._lease.begin()
            if not isinstance(value, control.ClockQuery):
                return message
            self.send(control.ClockReply(value.sent_ns, time.monotonic_ns(), 0))

    async def _next(self) -> control.JobMessage[Any]:
        try:
            message = await self._read()
        except grpc.aio.AioRpcError as error:
            raise _reason(error) from error
        if message is _AIO.EOF:
            raise RunAborted(await self._closing_reason())
        return self._decode(message)

    async def _read(self) -> Any:
        """The next bytes or the end of the stream, whichever comes before the lease runs out."""
        self._lease.heard()  # what came while nobody read is there
        self._is_reading = True
        try:
            message = await self._call.read()
        except asyncio.CancelledError:
            if self._expiry is None:
                raise
            raise self._expiry from None
        finally:
            self._is_reading = False
        self._lease.heard()
        return message

    async def drained(self) -> None:
        """Wait until the controller has read everything queued and closed the stream, or is gone.

        Closing the stream first would drop what the controller has not read yet.
        """
        await self.written()
        with contextlib.suppress(grpc.aio.AioRpcError, RunAborted):
            while await self._read() is not _AIO.EOF:
                pass

    async def written(self) -> None:
        """Wait until everything queued is sent; nothing can be sent afterwards."""
        self._outgoing.put_nowait(None)
        await asyncio.wait([self._writer])

    async def _watch_lease(self) -> None:
        """Break the stream off when the lease has run out."""
        while self._expiry is None:
            await asyncio.sleep(CHECK_S)
            overdue = self._lease.overdue()
            self._expiry = overdue if self._is_reading else None
        self._call.cancel()

    async def _closing_reason(self) -> str:
        code, details = await self._call.code(), await self._call.details()
        return details or f"the controller closed the control stream ({code.name})"

    async def _watch_tls(self) -> None:
        """A call that waits for a connection hides why there is none; one that does not wait gets the reason."""
        said, ping = set[str](), self._channel.unary_unary(_HEALTH)
        while True:
            try:
                await ping(b"", timeout=_PING_S)
            except grpc.aio.AioRpcError as error:
                if error.code() not in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
                    return
                reason = tls_failure(error.details() or "")
                if reason is not None and reason not in said:
                    said.add(reason)
                    self._report(f"no connection to the controller at {self._target}: {reason}")
            else:
                return
            await asyncio.sleep(CHECK_S)

    async def _write(self) -> None:
        try:
            while (message := await self._outgoing.get()) is not None:
                value, job = message
                if isinstance(value, control.ClockReply):
                    value = replace(value, sent_ns=time.monotonic_ns())
                try:
                    content = encode_agent(value, job)
                except RunError as error:  # it is too large: this agent gives up
                    content = encode_agent(control.Abort(str(error)), job)
                await self._call.write(content)
            await self._call.done_writing()
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            return  # the reading side sees the same broken stream and reports the reason


def tls_failure(details: str) -> str | None:
    """What failed in the TLS handshake, of gRPC's description of a failure; None: something else."""
    if "socket closed" in details.lower():  # TLS 1.3: a server refuses after the client's handshake
        return "it closes the connection; it may not accept this agent's certificate"
    if "handshake failed" not in details.lower():
        return None
    _, _, found = details.partition("OPENSSL_internal:")
    return f"the TLS handshake failed ({found.removesuffix(': OK') or details})"


def _core_time(pid: int) -> CoreTime | None:
    return CoreTime.now(Path(f"/proc/{pid}/schedstat"))


def _reason(error: grpc.aio.AioRpcError) -> RunAborted:
    if error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED):
        return RunAborted(f"the controller is gone ({error.details()})")
    reason = error.details() or error.code().name
    if error.code() in _REFUSALS:
        return ControllerRefusal(reason)
    return RunAborted(reason)


CHECK_S = 0.5
LONGEST_S = 60.0
"""No controller gives more, and one that gives nothing gives this when traffic begins."""
LONGEST_ABSENCE_S = 3.0
"""If more time passes between two checks, this agent had no core: what the controller sent is still unread."""
_BUSY_S = 1.0
"""A silent controller of this host works if it ran, or waited for a core, for longer than this."""


class Lease:
    """Whatever the controller says renews it; there is none until the controller gives one, or traffic begins.

    Args:
        now: the clock, s.
        core_time: time of the controller's process so far; None if it is not on this host.
    """

    def __init__(
        self, *, now: Callable[[], float] = time.monotonic, core_time: Callable[[], CoreTime | None] = lambda: None
    ) -> None:
        self._now, self._core_time = now, core_time
        self._seconds: float | None = None
        self._heard_at = self._checked_at = now()
        self._core_time_then: CoreTime | None = None  # when the controller fell silent

    def give(self, seconds: float) -> None:
        """The agent may play for so long, at most LONGEST_S, without hearing from the controller."""
        self._seconds = min(seconds, LONGEST_S)

    def begin(self) -> None:
        """Traffic begins, whether or not the controller has given a lease."""
        self._seconds = LONGEST_S if self._seconds is None else self._seconds

    def heard(self) -> None:
        """The controller has said something."""
        self._heard_at, self._core_time_then = self._now(), None

    def overdue(self) -> RunAborted | None:
        """Why the agent must stop; to be called every CHECK_S."""
        absent_s = self._now() - self._checked_at
        self._checked_at += absent_s
        if absent_s > LONGEST_ABSENCE_S:
            self._heard_at += absent_s
        silent_s = self._now() - self._heard_at
        if silent_s > _BUSY_S and self._core_time_then is None:
            self._core_time_then = self._core_time()
        if self._seconds is None or silent_s <= self._seconds or self._is_controller_busy():
            return None
        return RunAborted(f"the controller has sent nothing for {self._seconds:g} s")

    def _is_controller_busy(self) -> bool:
        """Whether a silent controller works; it may then be silent for as long again."""
        before, after = self._core_time_then, self._core_time()
        if before is None or after is None or sum(after) - sum(before) <= _BUSY_S * NS_PER_S:
            return False
        self._heard_at, self._core_time_then = self._now(), after
        return True
