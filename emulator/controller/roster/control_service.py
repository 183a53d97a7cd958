"""The gRPC side of the controller: one stream per agent, values in and out, nothing decided here."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeVar

import grpc

from emulator.control import conversation as control
from emulator.control.authentication import NONCE_BYTES, Binding, Purpose, code_of, is_code_of, new_nonce
from emulator.control.certificates.roles import Action, may, roles_of
from emulator.control.wire.codec import decode_agent, encode_controller
from emulator.control.wire.credentials import is_issued
from emulator.control.wire.descriptions import Encoder, Sealer
from emulator.controller.roster.stranger_limit import end_of
from emulator.errors import EmulatorError, RemoteProtocolError
from emulator.host.resources import exhausted
from emulator.visible import visible

if TYPE_CHECKING:
    from emulator.control.certificates.signature import Signer

logger = logging.getLogger(__name__)
V = TypeVar("V")

SERVER_OPTIONS = [
    ("grpc.max_receive_message_length", control.LARGEST_MESSAGE_BYTES),
    ("grpc.max_send_message_length", -1),
    ("grpc.so_reuseport", 0),
    ("grpc.server_handshake_timeout_ms", 5000),  # of a connection that says nothing: two minutes otherwise
    ("grpc.max_connection_idle_ms", 10_000),  # of one that asks for nothing
    ("grpc.keepalive_time_ms", 500),
    ("grpc.keepalive_timeout_ms", 500),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", 100),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 100),
]

GREETING_S = 10.0
"""How long a stranger may take to say who it is and to prove it."""
LARGEST_GREETING_BYTES = 1 << 16
MOST_DETAILS = 1000
"""Characters of the reason for which a stream ends: it travels in a header."""
MOST_REFUSALS = 100
"""That are logged; each other one could be new."""


@dataclass(frozen=True, slots=True)
class Keys:
    """What agents must know to be let in.

    Attributes:
        shared: one of these as it is; b"": nothing, where files or certificates protect.
        secret: or a token that was issued with this secret.
        signer: the controller's identity, which signs run descriptions.
        revoked: serial numbers of certificates that no longer count.
    """

    shared: Sequence[bytes] = field(repr=False)
    secret: str | None = field(default=None, repr=False)
    signer: Signer | None = field(default=None, repr=False)
    revoked: frozenset[int] = frozenset()

    def of(self, hello: control.Hello) -> Sequence[bytes]:
        """Keys that the agent may have.

        Raises:
            EmulatorError: it has no token of the secret.
        """
        if not hello.claims:
            return self.shared
        if self.secret is None or not is_issued(hello.claims):
            raise RemoteProtocolError("the token is not one of the controller's secret")
        from emulator.control.certificates.tokens import key_of_claims  # loads more than most runs need

        return [key_of_claims(hello.claims, self.secret, hello.agent)]


class AgentChannel:
    """What the controller sends to one agent; `close` ends the stream after what is queued."""

    def __init__(self, hello: control.Hello) -> None:
        self.hello = hello
        self._outgoing: asyncio.Queue[control.JobMessage[control.ControllerValue] | None] = asyncio.Queue()

    def send(self, value: control.ControllerValue, job: int | None = None) -> None:
        """Queue a value for the agent; `job`: number of the job that it is about."""
        self._outgoing.put_nowait(control.JobMessage(value, job))

    def close(self) -> None:
        """End the stream after what is queued."""
        self._outgoing.put_nowait(None)

    async def outgoing(self) -> AsyncIterator[control.JobMessage[control.ControllerValue]]:
        """Values to write, until closed."""
        while (message := await self._outgoing.get()) is not None:
            yield message


class AgentListener(Protocol):
    """Who decides about agents."""

    def admit(self, channel: AgentChannel) -> str | None:
        """Let the agent in, or say why not."""
        ...

    def heard(self, channel: AgentChannel, message: control.JobMessage[Any]) -> None:
        """The agent sent a value."""
        ...

    def lost(self, channel: AgentChannel, reason: str) -> None:
        """The agent's stream ended."""
        ...


class ControlService:
    """Serves control.proto's Session; an agent must prove that it knows a key before it is heard.

    An agent that is not let in is sent away, or, where it stays between runs, kept waiting until the server stops.
    Strangers are refused, and each reason is logged once for each of their hosts.
    """

    def __init__(self, listener: AgentListener, *, keys: Keys, run_id: str, greeting_s: float = GREETING_S) -> None:
        self._greeting_s = greeting_s
        self._listener, self._keys, self._run_id = listener, keys, run_id
        self.proved: set[str] = set()
        """Other ends of the connections of agents that have proved who they are."""
        self._is_over = asyncio.Event()
        self._refused: set[tuple[str, str]] = set()
        self._encode = Encoder()

    def release(self) -> None:
        """The server is about to stop: let go of those who wait."""
        self._is_over.set()

    def handler(self) -> grpc.GenericRpcHandler[bytes, bytes]:
        """What a gRPC server needs to route calls here."""
        service, method = control.METHOD.strip("/").split("/")
        rpc = grpc.stream_stream_rpc_method_handler(self._session)
        return grpc.method_handlers_generic_handler(service, {method: rpc})

    async def _session(self, requests: AsyncIterator[bytes], context: Any) -> None:
        hello, sealer = await self._greet(requests, context)
        end = end_of(context.peer())
        self.proved.add(end)
        try:
            await self._converse(hello, sealer, requests, context)
        finally:
            self.proved.discard(end)

    async def _converse(
        self, hello: control.Hello, sealer: Sealer, requests: AsyncIterator[bytes], context: Any
    ) -> None:
        channel = AgentChannel(hello)
        refusal = self._listener.admit(channel)
        if refusal is not None:
            await self._turn_away(channel.hello, refusal, requests, context)
            return
        reason, refused = "its connection ended", ""
        try:
            async with asyncio.TaskGroup() as tasks:
                writing = tasks.create_task(_write(channel, sealer, context))
                await self._read(requests, channel)
                writing.cancel()
        except* EmulatorError as errors:
            reason = refused = str(errors.exceptions[0])
        except* grpc.aio.BaseError:
            pass  # the stream broke while something was being written: its connection ended, as the reason says
        except* Exception as errors:  # the root of the conversation: the run ends with this as its reason
            reason = str(exhausted(errors) or f"internal error: {errors.exceptions[0]!r}")
        finally:
            self._listener.lost(channel, reason)
        if refused:
            said = f"the controller takes no more from this agent: {visible(refused)}"
            await _abort(context, grpc.StatusCode.INVALID_ARGUMENT, said[:MOST_DETAILS])

    async def _greet(self, requests: AsyncIterator[bytes], context: Any) -> tuple[control.Hello, Sealer]:
        """The agent's Hello, once it has proved who it is, and what signs for it."""
        try:
            async with asyncio.timeout(self._greeting_s):
                return await self._met(requests, context)
        except TimeoutError:
            await self._refuse(context, grpc.StatusCode.DEADLINE_EXCEEDED, "it did not give its name")

    async def _met(self, requests: AsyncIterator[bytes], context: Any) -> tuple[control.Hello, Sealer]:
        hello = await _greeting(requests, control.Hello)
        if hello is None or len(hello.nonce) != NONCE_BYTES:
            await self._refuse(context, grpc.StatusCode.INVALID_ARGUMENT, "the first message must be a Hello")
        version = min(hello.newest_version, control.NEWEST_VERSION)
        if version < max(hello.oldest_version, control.OLDEST_VERSION):
            await self._refuse(
                context,
                grpc.StatusCode.FAILED_PRECONDITION,
                f"no common control version: the agent supports {hello.oldest_version} to {hello.newest_version}, "
                f"the controller {control.OLDEST_VERSION} to {control.NEWEST_VERSION}",
            )
        problem = certificate_problem(context.auth_context(), hello.agent, self._keys.revoked)
        if problem is not None:
            await self._refuse(context, grpc.StatusCode.PERMISSION_DENIED, problem)
        binding = Binding(self._run_id, hello.agent, hello.nonce, new_nonce())
        key = await self._shared_key(hello, binding, requests, context)
        await context.write(encode_controller(control.Welcome(version)))
        return hello, Sealer(binding, key, self._keys.signer, self._encode)

    async def _shared_key(
        self, hello: control.Hello, binding: Binding, requests: AsyncIterator[bytes], context: Any
    ) -> bytes:
        """The key that both have, proved by both."""
        try:
            keys = self._keys.of(hello)
        except EmulatorError as error:
            await self._refuse(context, grpc.StatusCode.UNAUTHENTICATED, str(error))
        own, other = binding.statement(Purpose.CONTROLLER), binding.statement(Purpose.AGENT)
        challenge = control.Challenge(self._run_id, binding.controller_nonce, [code_of(key, own) for key in keys])
        await context.write(encode_controller(challenge))
        proof = await _greeting(requests, control.Proof)
        proved = [key for key in keys if proof is not None and is_code_of(key, other, proof.code)]
        if not proved:
            await self._refuse(context, grpc.StatusCode.UNAUTHENTICATED, "the token is not the controller's")
        return proved[0]

    async def _refuse(self, context: Any, code: grpc.StatusCode, reason: str) -> NoReturn:
        """End the stream of a stranger."""
        known = (context.peer().rpartition(":")[0], reason)
        if known not in self._refused and len(self._refused) < MOST_REFUSALS:
            self._refused.add(known)
            logger.warning("refused %s: %s", visible(context.peer()), visible(reason))
        await _abort(context, code, reason)

    async def _turn_away(
        self, hello: control.Hello, refusal: str, requests: AsyncIterator[bytes], context: Any
    ) -> None:
        if not hello.stays:
            await _abort(context, grpc.StatusCode.FAILED_PRECONDITION, refusal)
        await context.write(encode_controller(control.Wait(refusal)))
        leaving = asyncio.create_task(_drain(requests))
        over = asyncio.create_task(self._is_over.wait())
        await asyncio.wait([leaving, over], return_when=asyncio.FIRST_COMPLETED)
        leaving.cancel()
        over.cancel()

    async def _read(self, requests: AsyncIterator[bytes], channel: AgentChannel) -> None:
        async for message in requests:
            self._listener.heard(channel, decode_agent(message))


async def _greeting(requests: AsyncIterator[bytes], kind: type[V]) -> V | None:
    """The next value of a stranger; None if it is not what it must be."""
    async for message in requests:
        with contextlib.suppress(RemoteProtocolError):
            value = decode_agent(message).value if len(message) <= LARGEST_GREETING_BYTES else None
            return value if isinstance(value, kind) else None
        break
    return None


async def _abort(context: Any, code: grpc.StatusCode, reason: str) -> NoReturn:
    """End a stream with a reason, or without one if the other end does not read what was written before."""
    try:
        await context.abort(code, reason)
    except grpc.aio.AbortError:
        raise
    except grpc.aio.BaseError as error:
        raise asyncio.CancelledError from error  # anything else would be logged with a traceback
    raise AssertionError("aborting raises")


async def _write(channel: AgentChannel, sealer: Sealer, context: Any) -> None:
    async for value, job in channel.outgoing():
        if isinstance(value, control.ClockQuery):
            value = control.ClockQuery(time.monotonic_ns())
        await context.write(sealer.encode(value, job))


def certificate_problem(facts: Mapping[str, Iterable[bytes]], agent: str, revoked: Container[int] = ()) -> str | None:
    """Why the certificate of a stream does not let this agent in; None: it does, or says nothing about roles.

    Args:
        facts: as gRPC reports the other side's certificate.
        agent: name that the agent gave.
        revoked: serial numbers of certificates that no longer count.
    """
    if revoked:
        from emulator.control.certificates.identity import serial_of

        if any(serial_of(one) in revoked for one in facts.get("x509_pem_cert", ())):
            return f"the certificate of {agent} was revoked: charkha agent certs issue"
    roles = roles_of(name.decode(errors="replace") for name in facts.get("x509_subject_alternative_name", ()))
    names = [name.decode(errors="replace") for name in facts.get("x509_common_name", ())]
    if not roles:
        return None
    if not any(may(role, Action.PLAY) for role in roles):
        return f"its certificate is that of a {', '.join(roles)}, not of an agent"
    return None if agent in names else f"its certificate is that of agent {', '.join(names)}, not of {agent}"


async def _drain(requests: AsyncIterator[bytes]) -> None:
    """Until the agent hangs up."""
    with contextlib.suppress(grpc.aio.BaseError):
        async for _ in requests:
            pass
