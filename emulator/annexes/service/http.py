"""HTTP: who asks, what they may do, and the operations as routes. Every route names the role it needs."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import hmac
import logging
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextvars import ContextVar
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import msgspec
from aiohttp import BodyPartReader, MultipartReader, hdrs, web

from emulator.annexes.service.connections import REQUEST_S, ConnectionLimits
from emulator.annexes.service.model import MOST_FILES, Event, Refusal, Role, Upload, User
from emulator.annexes.service.operations import OPERATIONS, PREFIX, ServiceOperation, in_path_of, openapi
from emulator.annexes.service.service import Service
from emulator.annexes.service.store import Store
from emulator.errors import EmulatorError, HostError, RunError
from emulator.host.stderr_log import write_traceback
from emulator.schema import SchemaProblem, decode, parse_json
from emulator.units import format_size

LARGEST_BODY_BYTES = 1 << 20
"""Of a request without files."""
LEAST_BYTES_PER_S = 32 << 10
"""At which files have to come."""
_CHUNK_BYTES = 256 << 10
_LARGEST_FIELD_BYTES = 4096
"""Beside files."""
MOST_STREAMS = 64
"""Streams of events that a user may have open."""
COOKIE = "charkha_session"
FORM_TOKEN = "form_token"
_SAFE = ("GET", "HEAD")
_BASIC = "basic "
_FORM = "application/x-www-form-urlencoded"
_FORM_WITH_FILES = "multipart/form-data"
MOST_FIELDS = 1000
"""Of a form."""
_HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "X-Frame-Options": "DENY",
}

logger = logging.getLogger(__name__)
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_USER: ContextVar[User | None] = ContextVar("user", default=None)


class Routes:
    """The routes of an application, with the role that each needs; a request to any other is refused.

    Args:
        service: knows users.
        is_secret: the connection is encrypted: cookies never travel without.
    """

    def __init__(self, service: Service, *, is_secret: bool) -> None:
        self.service, self.is_secret = service, is_secret
        self.limits: ConnectionLimits | None = None
        self.streams: Counter[str] = Counter()
        self.application = web.Application(middlewares=[self._answer], client_max_size=LARGEST_BODY_BYTES)
        self._roles: dict[web.AbstractRoute, Role | None] = {}
        self._takes_basic: set[web.AbstractRoute] = set()
        self._takes_files: set[web.AbstractRoute] = set()

    def add(
        self,
        method: str,
        path: str,
        handler: Handler,
        *,
        role: Role | None,
        takes_basic: bool = False,
        takes_files: bool = False,
    ) -> None:
        """Add a route.

        Args:
            method, path, handler: of the route.
            role: the least that it needs; None: it answers everybody.
            takes_basic: a token may also be the password of HTTP Basic, for clients that know nothing else.
            takes_files: the handler reads the body, with `FormWithFiles`.
        """
        route = self.application.router.add_route(method, path, handler)
        self._roles[route] = role
        if takes_basic:
            self._takes_basic.add(route)
        if takes_files:
            self._takes_files.add(route)

    def roles(self) -> dict[web.AbstractRoute, Role | None]:
        """The role that each route needs."""
        return dict(self._roles)

    @web.middleware
    async def _answer(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        transport = request.transport
        if self.limits is not None:
            self.limits.began(transport)
        try:
            return await self._answered(request, handler)
        finally:
            if self.limits is not None:
                self.limits.ended(transport)

    async def _answered(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            self._let_in(request)
            await _read_whole(request, is_later=request.match_info.route in self._takes_files)
            answer = await handler(request)
        except web.HTTPException as error:
            if error.status < 400:
                raise
            answer = self._refuse(request, error.status, error.text or error.reason)
        except Refusal as error:
            answer = self._refuse(request, error.status, str(error))
        except EmulatorError as error:
            status = 500 if isinstance(error, HostError | RunError) else 400
            answer = self._refuse(request, status, str(error))
        except Exception as error:  # the root of a request: a user sees one line, the log where to find the rest
            what, where = f"{type(error).__name__}: {error}", write_traceback(error)
            logger.error("internal error in %s %s: %s (a bug: report %s)", request.method, request.path, what, where)
            answer = self._refuse(request, 500, "internal error: the log of the service says more")
        if not answer.prepared:
            for name, value in _HEADERS.items():
                answer.headers.setdefault(name, value)
        return answer

    def _let_in(self, request: web.Request) -> None:
        """Refuse a request whose user is not known, or may not do this."""
        _USER.set(None)
        route = request.match_info.route
        needed = self._roles.get(route, Role.VIEWER)
        origin = request.headers.get(hdrs.ORIGIN)
        if request.method not in _SAFE and origin is not None and origin != f"{request.scheme}://{request.host}":
            raise Refusal("the request comes from a page of another site", status=403)
        if needed is None:
            return
        _USER.set(checked(self._user(request), needed))

    def _user(self, request: web.Request) -> User | None:
        authorization = request.headers.get(hdrs.AUTHORIZATION)
        if authorization is not None:
            if request.match_info.route in self._takes_basic and authorization.lower().startswith(_BASIC):
                return _user_of_basic(self.service.store, authorization)
            return user_of_bearer(self.service.store, authorization)
        secret = request.cookies.get(COOKIE)
        if secret is None or (request.method not in _SAFE and request.path.startswith(PREFIX)):
            return None  # a page sends forms, which have a token of their own; programs have theirs
        return self.service.store.user_of_session(secret)

    def _refuse(self, request: web.Request, status: int, problem: str) -> web.StreamResponse:
        if status == 401 and request.method == "GET" and "text/html" in request.headers.get(hdrs.ACCEPT, ""):
            return web.Response(status=303, headers={hdrs.LOCATION: "/login"})
        headers = {hdrs.WWW_AUTHENTICATE: "Bearer"} if status == 401 else {}
        if request.path.startswith(PREFIX) or "text/html" not in request.headers.get(hdrs.ACCEPT, ""):
            return web.json_response({"error": problem}, status=status, headers=headers)
        return self.application[PROBLEM_PAGE](request, status, problem)


def user_of_bearer(store: Store, authorization: str) -> User | None:
    """Who has the token of `Bearer TOKEN`."""
    kind, _, token = authorization.partition(" ")
    return store.user_of_token(token.strip()) if kind.lower() == "bearer" else None


def _user_of_basic(store: Store, authorization: str) -> User | None:
    """Who has the token that is the password of HTTP Basic, if the name is theirs."""
    try:
        given = base64.b64decode(authorization[len(_BASIC) :].strip(), validate=True).decode()
    except ValueError:
        return None
    name, _, token = given.partition(":")
    found = store.user_of_token(token)
    return found if found is not None and found.name == name else None


def checked(found: User | None, needed: Role) -> User:
    """A user who may do what needs a role.

    Raises:
        Refusal: nobody is known, or they may not.
    """
    if found is None:
        raise Refusal("give a token: Authorization: Bearer TOKEN, or log in", status=401)
    if not found.role.includes(needed):
        raise Refusal(f"{found.name} is {found.role}; this needs the role {needed}", status=403)
    return found


async def _read_whole(request: web.Request, *, is_later: bool) -> None:
    """Read the body, which handlers then have at once; of one that is read later, see only that it is not compressed.

    Raises:
        Refusal: it does not come in time, is a damaged form, or comes compressed: few bytes would cost much.
    """
    if request.headers.get(hdrs.CONTENT_ENCODING, "identity").lower() != "identity":
        raise Refusal("the body has a Content-Encoding: send it as it is", status=415)
    if request.body_exists and not is_later:
        async with _coming(asyncio.get_running_loop().time() + REQUEST_S):
            await (request.post() if request.content_type == _FORM_WITH_FILES else request.read())


@contextlib.asynccontextmanager
async def _coming(deadline_s: float) -> AsyncIterator[None]:
    """Around what reads a body.

    Raises:
        Refusal: it has not come at a time of the loop, or is damaged.
    """
    try:
        async with asyncio.timeout_at(deadline_s):
            yield
    except TimeoutError:
        problem = f"the body did not come in {REQUEST_S:.0f} s, or files at {LEAST_BYTES_PER_S >> 10} KiB/s"
        raise Refusal(problem, status=408) from None
    except (OSError, Refusal, web.HTTPException):
        raise
    except Exception as error:  # boundaries, headers, encodings and charsets of parts each have errors of their own
        raise Refusal(f"the form is damaged: {error}") from error


class FormWithFiles:
    """A form whose fields come before its files, which are written as they come and never held whole."""

    def __init__(self, request: web.Request) -> None:
        self._request = request
        self._began_s, self._bytes = asyncio.get_running_loop().time(), 0
        self._parts: MultipartReader | None = None
        self._next: BodyPartReader | None = None

    async def fields(self) -> dict[str, str]:
        """The fields.

        Raises:
            Refusal: it comes in another way, too slowly, damaged, or with fields that are too large or too many.
        """
        if self._request.content_type != _FORM_WITH_FILES:
            raise Refusal(f"the form does not come as {_FORM_WITH_FILES}", status=415)
        found: dict[str, str] = {}
        async with self._in_time():
            self._parts = await self._request.multipart()
            while (part := await self._part()) is not None and part.filename is None:
                content = await self._chunk(part, _LARGEST_FIELD_BYTES + 1)
                if len(content) > _LARGEST_FIELD_BYTES or len(found) == MOST_FIELDS:
                    raise Refusal("the form has fields that are too large or too many", status=413)
                found[part.name or ""] = decoded(content, f"the field {part.name}")
        self._next = part
        return found

    async def write(self, folder: Path, most_bytes: int) -> None:
        """Write the files into a folder.

        Raises:
            Refusal: as `fields`; names that do not fit or are there twice, too many files, or more than `most_bytes`.
            OSError: the disk is full.
        """
        part, count = self._next, 0
        while part is not None:
            name, count = asked_of({"name": part.filename or ""}, Upload, is_text=True).name, count + 1
            if count > MOST_FILES or (folder / name).exists():
                raise Refusal(f"{name}: there is such a file already, or more than {MOST_FILES} come")
            with (folder / name).open("xb") as file:
                while content := await self._timed_chunk(part):
                    self._bytes += len(content)
                    if self._bytes > most_bytes:
                        problem = f"the files are larger than the {format_size(most_bytes)} that are left of disk_quota"
                        raise Refusal(f"{problem} or on the disk", status=507)
                    await asyncio.to_thread(file.write, content)
            async with self._in_time():
                part = await self._part()

    async def _timed_chunk(self, part: BodyPartReader) -> bytes:
        async with self._in_time():
            return bytes(await part.read_chunk(_CHUNK_BYTES))

    async def _chunk(self, part: BodyPartReader, most_bytes: int) -> bytes:
        content = b""
        while len(content) < most_bytes and (more := await part.read_chunk(most_bytes)):
            content += more
        return content

    async def _part(self) -> BodyPartReader | None:
        assert self._parts is not None
        part = await self._parts.next()
        if part is not None and not isinstance(part, BodyPartReader):
            raise Refusal("the form has a form as a part")
        return part

    def _in_time(self) -> contextlib.AbstractAsyncContextManager[None]:
        return _coming(self._began_s + REQUEST_S + self._bytes / LEAST_BYTES_PER_S)


ProblemPage = Callable[[web.Request, int, str], web.Response]
PROBLEM_PAGE: web.AppKey[ProblemPage] = web.AppKey("problem_page")


def known_user() -> User | None:
    """Who asks in the request that is being answered; None: nobody that is known."""
    return _USER.get()


def user() -> User:
    """Who asks, in a route that needs a role."""
    found = _USER.get()
    assert found is not None
    return found


def form_token_of(request: web.Request) -> str:
    """What a form of a page has to send back: only a page of this service, in this session, can know it."""
    cookie = request.cookies.get(COOKIE, "").encode("utf-8", "surrogatepass")
    return hashlib.sha256(b"form " + cookie).hexdigest()


async def fields_of(request: web.Request) -> dict[str, str]:
    """The fields of a form, as browsers send those of all pages here.

    Raises:
        Refusal: it comes in another way, or with text that is not UTF-8.
    """
    if request.content_type == _FORM_WITH_FILES:
        return {name: value for name, value in (await request.post()).items() if isinstance(value, str)}
    if request.content_type != _FORM:
        raise Refusal(f"the form does not come as {_FORM}", status=415)
    try:
        text = (await request.read()).decode("ascii")
        return dict(parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=MOST_FIELDS))
    except ValueError as error:
        raise Refusal(f"the form cannot be read: it has at most {MOST_FIELDS:,} fields, of UTF-8 text") from error


async def form_of(request: web.Request, form: FormWithFiles | None = None) -> dict[str, str]:
    """The fields of a form that a page of this service sent.

    Raises:
        Refusal: it cannot be read, or lacks the token of the session.
    """
    found = await (fields_of(request) if form is None else form.fields())
    if not is_same(found.pop(FORM_TOKEN, ""), form_token_of(request)):
        raise Refusal("the form is not of this session: load its page again", status=403)
    return found


def decoded(content: bytes, what: str) -> str:
    """Text that was sent as bytes.

    Raises:
        Refusal: it is not UTF-8; the message begins with `what`.
    """
    try:
        return content.decode()
    except ValueError as error:
        raise Refusal(f"{what} is not UTF-8 text") from error


def is_same(given: str, secret: str) -> bool:
    """Compare in a time that says nothing about the secret, whatever text is given."""
    return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), secret.encode())


def add_operations(routes: Routes) -> None:
    """The operations as routes, their description, and the health check."""
    for one in OPERATIONS.values():
        handler = _streaming(routes, one) if one.is_stream else _answering(routes.service, one)
        routes.add(one.method, one.path, handler, role=one.role, takes_files=one.takes_files)

    async def describe(request: web.Request) -> web.Response:
        return web.json_response(openapi())

    async def health(request: web.Request) -> web.Response:
        return web.json_response({"status": "ok"})

    routes.add("GET", "/openapi.json", describe, role=Role.VIEWER)
    routes.add("GET", "/health", health, role=None)


def _answering(service: Service, one: ServiceOperation[Any, Any]) -> Handler:
    perform = getattr(service, one.name)

    async def handle(request: web.Request) -> web.StreamResponse:
        if one.takes_files:
            form = FormWithFiles(request)
            answer = await perform(user(), asked_of(await form.fields(), one.request, is_text=True), form.write)
        else:
            answer = await perform(user(), await _asked(request, one))
        return web.Response(body=msgspec.json.encode(answer), content_type="application/json")

    return handle


def _streaming(routes: Routes, one: ServiceOperation[Any, Any]) -> Handler:
    perform: Callable[[User, Any], AsyncGenerator[Event]] = getattr(routes.service, one.name)

    async def handle(request: web.Request) -> web.StreamResponse:
        name = user().name
        if routes.streams[name] >= MOST_STREAMS:
            raise Refusal(f"{name} follows {MOST_STREAMS} runs, the most that one user may: end one", status=429)
        routes.streams[name] += 1
        try:
            return await stream(request)
        finally:
            routes.streams[name] -= 1

    async def stream(request: web.Request) -> web.StreamResponse:
        events = perform(user(), await _asked(request, one))
        answer = web.StreamResponse(headers={**_HEADERS, hdrs.CONTENT_TYPE: "text/event-stream"})
        async with contextlib.aclosing(events):
            first = await anext(events)  # what is refused is refused before the stream begins
            await answer.prepare(request)
            with contextlib.suppress(ConnectionResetError):  # the reader has had enough
                await answer.write(_event(first))
                async for event in events:
                    await answer.write(_event(event))
                await answer.write_eof()
        return answer

    return handle


def _event(event: Event) -> bytes:
    return b"data: " + msgspec.json.encode(event) + b"\n\n"


async def _asked(request: web.Request, one: ServiceOperation[Any, Any]) -> Any:
    """The request of an operation, from path, query and body.

    Raises:
        Refusal: a value is missing, unknown or does not fit.
    """
    fields: dict[str, Any] = {}
    if one.method == "POST" and request.body_exists:
        fields |= await object_of(request)
    elif one.method != "POST":
        fields |= query_of(request, one.request)
    fields |= {name: request.match_info[name] for name in in_path_of(one)}
    return asked_of(fields, one.request, is_text=one.method != "POST" or bool(request.match_info))


async def object_of(request: web.Request) -> dict[str, Any]:
    """The JSON object that is the body of a request.

    Raises:
        Refusal: it is none.
    """
    try:
        body = parse_json(await request.read(), has_paths=False)
    except SchemaProblem as problem:
        raise Refusal(f"the body {problem}") from problem
    if not isinstance(body, dict):
        raise Refusal("the body is not a JSON object")
    return body


def query_of(request: web.Request, kind: type[Any]) -> dict[str, Any]:
    """The query as fields of a request: a field that takes several values gets all, an empty one is left out."""
    several = {one.name for one in msgspec.structs.fields(kind) if "Sequence" in str(one.type)}
    query = request.query
    return {name: query.getall(name) if name in several else query[name] for name in query if query[name]}


def asked_of(fields: dict[str, Any], kind: type[Any], *, is_text: bool) -> Any:
    """Fields as a request.

    Args:
        fields: by name.
        kind: of request.
        is_text: numbers are texts, as in paths, queries and forms.

    Raises:
        Refusal: a value is missing, unknown or does not fit.
    """
    try:
        return decode(fields, kind, is_text=is_text)
    except SchemaProblem as problem:
        raise Refusal(str(problem)) from problem
