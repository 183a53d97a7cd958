"""The operations over gRPC: the same names, types and roles, on a port of its own. `/service.proto` describes them."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from functools import cache, partial
from pathlib import Path
from typing import Any, NoReturn

import grpc

from emulator.errors import EmulatorError, HostError
from emulator.experiment.live_address import LiveAddress
from emulator.service.http import LARGEST_BODY_BYTES, asked_of, checked, user_of_bearer
from emulator.service.model import Refusal, User
from emulator.service.operations import OPERATIONS, Operation
from emulator.service.service import Service
from emulator.wire.control.tls import TlsFiles
from emulator.wire.described import Described, Method

_STATUS = {
    401: grpc.StatusCode.UNAUTHENTICATED,
    403: grpc.StatusCode.PERMISSION_DENIED,
    404: grpc.StatusCode.NOT_FOUND,
    409: grpc.StatusCode.FAILED_PRECONDITION,
}
Context = grpc.aio.ServicerContext[Any, Any]


@cache
def described() -> Described:
    """The messages and methods: `submit` is `Submit`, `list_runs` is `ListRuns`."""
    methods = [Method(_name(one), one.request, one.answer, one.is_stream) for one in OPERATIONS.values()]
    return Described("charkha.service.v1", "Service", methods)


@contextlib.asynccontextmanager
async def rpc_server(service: Service, address: LiveAddress, *, identity: Path | None) -> AsyncIterator[int]:
    """Answer over gRPC, while the context is open; yields the port.

    Args:
        service: performs the operations.
        address: where to listen.
        identity: PEM file with key and certificate; None: without TLS.

    Raises:
        HostError: the address is not available.
    """
    server = grpc.aio.server(
        options=[("grpc.max_receive_message_length", LARGEST_BODY_BYTES), ("grpc.so_reuseport", 0)]
    )
    handlers = {_name(one): _handler(service, one) for one in OPERATIONS.values()}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(described().name, handlers),))
    where = f"{address.host}:{address.port}"
    try:
        if identity is None:
            port = server.add_insecure_port(where)
        else:
            files = TlsFiles(certificate=identity, key=identity)
            port = server.add_secure_port(where, files.server_credentials())
    except RuntimeError as error:
        raise HostError(f"gRPC cannot be served at {where}: choose another port in serve.yaml") from error
    await server.start()
    try:
        yield port
    finally:
        await server.stop(grace=1)


def _name(operation: Operation[Any, Any]) -> str:
    return operation.name.title().replace("_", "")


def _handler(service: Service, one: Operation[Any, Any]) -> grpc.RpcMethodHandler[Any, Any]:
    perform, encode = getattr(service, one.name), partial(described().encode, one.answer)
    if one.is_stream:
        return grpc.unary_stream_rpc_method_handler(_streaming(service, one, perform), response_serializer=encode)
    return grpc.unary_unary_rpc_method_handler(_answering(service, one, perform), response_serializer=encode)


def _answering(
    service: Service, one: Operation[Any, Any], perform: Callable[..., Awaitable[Any]]
) -> Callable[..., Any]:
    async def handle(content: bytes, context: Context) -> Any:
        try:
            return await perform(*_request(service, one, content, context))
        except EmulatorError as error:
            await _refuse(context, error)

    return handle


def _streaming(
    service: Service, one: Operation[Any, Any], perform: Callable[..., AsyncGenerator[Any]]
) -> Callable[..., Any]:
    async def handle(content: bytes, context: Context) -> AsyncIterator[Any]:
        try:
            async with contextlib.aclosing(perform(*_request(service, one, content, context))) as events:
                async for event in events:
                    yield event
        except EmulatorError as error:
            await _refuse(context, error)

    return handle


def _request(service: Service, one: Operation[Any, Any], content: bytes, context: Context) -> tuple[User, Any]:
    """Who asks what.

    Raises:
        Refusal: they may not, or a value does not fit.
    """
    metadata = {str(key): str(value) for key, value in context.invocation_metadata() or ()}
    user = checked(user_of_bearer(service.store, metadata.get("authorization", "")), one.role)
    try:
        fields = described().decode(one.request, content)
    except ValueError as error:
        raise Refusal(str(error)) from error
    return user, asked_of(fields, one.request, is_text=True)


async def _refuse(context: Context, error: EmulatorError) -> NoReturn:
    status = error.status if isinstance(error, Refusal) else 400
    await context.abort(_STATUS.get(status, grpc.StatusCode.INVALID_ARGUMENT), str(error))
    raise AssertionError("abort returned")
