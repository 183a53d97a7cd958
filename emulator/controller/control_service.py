"""The gRPC side of the controller: one stream per agent, values in and out, nothing decided here."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import logging
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Any, Protocol

import grpc

from emulator.certificates.roles import Role, roles_of
from emulator.control import conversation as control
from emulator.errors import EmulatorError, RemoteProtocolError
from emulator.wire.control.codec import decode_agent, encode_controller

logger = logging.getLogger(__name__)

SERVER_OPTIONS = [
    ("grpc.max_receive_message_length", control.LARGEST_MESSAGE_BYTES),
    ("grpc.max_send_message_length", -1),
    ("grpc.so_reuseport", 0),
    ("grpc.keepalive_time_ms", 500),
    ("grpc.keepalive_timeout_ms", 500),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", 100),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 100),
]


class AgentChannel:
    """What the controller sends to one agent; `close` ends the stream after what is queued."""

    def __init__(self, hello: control.Hello) -> None:
        self.hello = hello
        self._outgoing: asyncio.Queue[control.Message[control.ControllerValue] | None] = asyncio.Queue()

    def send(self, value: control.ControllerValue, job: int | None = None) -> None:
        """Queue a value for the agent; `job`: number of the job that it is about."""
        self._outgoing.put_nowait(control.Message(value, job))

    def close(self) -> None:
        """End the stream after what is queued."""
        self._outgoing.put_nowait(None)

    async def outgoing(self) -> AsyncIterator[control.Message[control.ControllerValue]]:
        """Values to write, until closed."""
        while (message := await self._outgoing.get()) is not None:
            yield message


class AgentListener(Protocol):
    """Who decides about agents."""

    def admit(self, channel: AgentChannel) -> str | None:
        """Let the agent in, or say why not."""
        ...

    def heard(self, channel: AgentChannel, message: control.Message[Any]) -> None:
        """The agent sent a value."""
        ...

    def lost(self, channel: AgentChannel, reason: str) -> None:
        """The agent's stream ended."""
        ...


class ControlService:
    """Serves control.proto's Session; a token must match before anything else is looked at.

    An agent that is not let in is sent away, or, where it stays between runs, kept waiting until the server stops.
    """

    def __init__(self, listener: AgentListener, *, tokens: Sequence[str], run_id: str) -> None:
        self._listener, self._tokens, self._run_id = listener, [token.encode() for token in tokens], run_id
        self._is_over = asyncio.Event()
        self._directory: tuple[control.Directory, int | None, bytes] | None = None  # the last one, encoded

    def release(self) -> None:
        """The server is about to stop: let go of those who wait."""
        self._is_over.set()

    def handler(self) -> grpc.GenericRpcHandler[bytes, bytes]:
        """What a gRPC server needs to route calls here."""
        service, method = control.METHOD.strip("/").split("/")
        rpc = grpc.stream_stream_rpc_method_handler(self._session)
        return grpc.method_handlers_generic_handler(service, {method: rpc})

    async def _session(self, requests: AsyncIterator[bytes], context: Any) -> None:
        channel = AgentChannel(await self._greet(requests, context))
        refusal = self._listener.admit(channel)
        if refusal is not None:
            await self._turn_away(channel.hello, refusal, requests, context)
            return
        reason = "its connection ended"
        try:
            async with asyncio.TaskGroup() as tasks:
                writing = tasks.create_task(self._write(channel, context))
                await self._read(requests, channel)
                writing.cancel()
        except* EmulatorError as errors:
            reason = str(errors.exceptions[0])
        except* grpc.aio.BaseError:
            pass  # the stream broke while something was being written: its connection ended, as the reason says
        except* Exception as errors:  # the root of the conversation: the run ends with this as its reason
            reason = f"internal error: {errors.exceptions[0]!r}"
        finally:
            self._listener.lost(channel, reason)

    async def _greet(self, requests: AsyncIterator[bytes], context: Any) -> control.Hello:
        """The agent's Hello, token and version checked."""
        hello = await self._first(requests)
        if not isinstance(hello, control.Hello):
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the first message must be a Hello")
        assert isinstance(hello, control.Hello)
        if not self._knows(hello.token):
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, "the token is not the controller's")
        problem = certificate_problem(context.auth_context(), hello.agent)
        if problem is not None:
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, problem)
        version = min(hello.newest_version, control.NEWEST_VERSION)
        if version < max(hello.oldest_version, control.OLDEST_VERSION):
            await context.abort(
                grpc.StatusCode.FAILED_PRECONDITION,
                f"no common control version: the agent speaks {hello.oldest_version} to {hello.newest_version}, "
                f"the controller {control.OLDEST_VERSION} to {control.NEWEST_VERSION}",
            )
        await context.write(encode_controller(control.Welcome(version, self._run_id)))
        return hello

    def _knows(self, said: str) -> bool:
        """Whether it is one of the tokens, in a time that does not tell how much of it is right."""
        return sum(hmac.compare_digest(said.encode(), token) for token in self._tokens) > 0

    async def _turn_away(
        self, hello: control.Hello, refusal: str, requests: AsyncIterator[bytes], context: Any
    ) -> None:
        if not hello.stays:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, refusal)
        await context.write(encode_controller(control.Wait(refusal)))
        leaving = asyncio.create_task(_drain(requests))
        over = asyncio.create_task(self._is_over.wait())
        await asyncio.wait([leaving, over], return_when=asyncio.FIRST_COMPLETED)
        leaving.cancel()
        over.cancel()

    async def _first(self, requests: AsyncIterator[bytes]) -> Any:
        """The first value, None if there is none that can be understood."""
        async for message in requests:
            with contextlib.suppress(RemoteProtocolError):
                return decode_agent(message).value if len(message) <= control.LARGEST_HELLO_BYTES else None
            break
        return None

    async def _read(self, requests: AsyncIterator[bytes], channel: AgentChannel) -> None:
        async for message in requests:
            self._listener.heard(channel, decode_agent(message))

    async def _write(self, channel: AgentChannel, context: Any) -> None:
        async for value, job in channel.outgoing():
            if isinstance(value, control.ClockQuery):
                value = control.ClockQuery(time.monotonic_ns())
            await context.write(self._encode(value, job))

    def _encode(self, value: control.ControllerValue, job: int | None) -> bytes:
        """As bytes; those of a directory, which is long and goes to every agent, are made once."""
        if not isinstance(value, control.Directory):
            return encode_controller(value, job)
        if self._directory is None or self._directory[0] is not value or self._directory[1] != job:
            self._directory = value, job, encode_controller(value, job)
        return self._directory[2]


def certificate_problem(facts: Mapping[str, Iterable[bytes]], agent: str) -> str | None:
    """Why the certificate of a stream does not let this agent in; None: it does, or says nothing about roles.

    Args:
        facts: as gRPC reports the other side's certificate.
        agent: name that the agent gave.
    """
    roles = roles_of(name.decode(errors="replace") for name in facts.get("x509_subject_alternative_name", ()))
    names = [name.decode(errors="replace") for name in facts.get("x509_common_name", ())]
    if not roles:
        return None
    if Role.AGENT not in roles:
        return f"its certificate is that of a {', '.join(roles)}, not of an agent"
    return None if agent in names else f"its certificate is that of agent {', '.join(names)}, not of {agent}"


async def _drain(requests: AsyncIterator[bytes]) -> None:
    """Until the agent hangs up."""
    with contextlib.suppress(grpc.aio.BaseError):
        async for _ in requests:
            pass
