"""The client of a service: a method per operation, with the same types. It needs nothing but the standard library.

client = Client("http://127.0.0.1:8760", token)
run, = client.submit(dut="loopback", spec=Path("run.yaml").read_text())
for event in client.follow_run(run.id):
    print(event.log or event.run.state)
"""

from __future__ import annotations

import secrets
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from http.client import HTTPResponse
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from emulator.annexes.service import model
from emulator.annexes.service import operations as api
from emulator.annexes.service.model import Refusal, Role, Run
from emulator.annexes.service.operations import ServiceOperation
from emulator.errors import HostError

Q = TypeVar("Q", bound=msgspec.Struct)
A = TypeVar("A")
TIMEOUT_S = 60.0
_CHUNK_BYTES = 256 << 10


class Client:
    """Asks a service.

    Args:
        url: of the service.
        token: of the user.
        authority: PEM file with the certificate that signed that of the service; None: the system's.

    Every method raises:
        Refusal: the service refuses; `status` is that of HTTP.
        HostError: it does not answer.
    """

    def __init__(self, url: str, token: str, *, authority: Path | None = None) -> None:
        self._url, self._token = url.rstrip("/"), token
        self._tls = ssl.create_default_context(cafile=authority) if url.startswith("https:") else None

    def call(self, operation: ServiceOperation[Q, A], asked: Q) -> A:
        """Perform an operation."""
        with self._open(operation, asked) as answer:
            return msgspec.json.decode(answer.read(), type=operation.answer)

    def who(self) -> model.User:
        """The user of the token."""
        return self.call(api.WHO, model.Nothing())

    def list_users(self) -> list[model.User]:
        """All users."""
        return self.call(api.LIST_USERS, model.Nothing())

    def add_user(self, name: str, role: Role) -> str:
        """Add a user, or give one a new role and token; returns the token."""
        return self.call(api.ADD_USER, model.User(name=name, role=role)).token

    def remove_user(self, name: str) -> None:
        """Remove a user."""
        self.call(api.REMOVE_USER, model.UserName(name=name))

    def list_duts(self) -> list[model.Dut]:
        """All devices under test."""
        return self.call(api.LIST_DUTS, model.Nothing())

    def add_dut(
        self, name: str, *, about: str = "", topologies: Sequence[str] = (), spec: Mapping[str, Any] | None = None
    ) -> model.Dut:
        """Add or change a device under test; arguments as `Dut`."""
        dut = model.Dut(name=name, about=about, topologies=tuple(topologies), spec=spec or {})
        return self.call(api.ADD_DUT, dut)

    def list_stored(self) -> model.Stored:
        """Traces, topologies, profiles and suites."""
        return self.call(api.LIST_STORED, model.Nothing())

    def add_trace(self, name: str, files: Iterable[Path]) -> model.StoredFile:
        """Store a trace of the user's own, of any size that their quota allows: its .et files, and the group file."""
        with self._open(api.ADD_TRACE, model.Upload(name=name), list(files)) as answer:
            return msgspec.json.decode(answer.read(), type=model.StoredFile)

    def add_rules(self, name: str, text: str) -> model.StoredFile:
        """Store rules of the user's own, the text of a rules file."""
        return self.call(api.ADD_RULES, model.Rules(name=name, text=text))

    def compose(self, **choice: Any) -> model.Composed:
        """Run specs of stored files; arguments as `Compose`."""
        return self.call(api.COMPOSE, model.Compose(**choice))

    def submit(self, *, dut: str, spec: str, name: str = "", repeat: int = 1) -> list[Run]:
        """Put a run spec, as YAML, into the queue of a device."""
        return self.call(api.SUBMIT, model.Submit(dut=dut, spec=spec, name=name, repeat=repeat))

    def list_runs(self, **query: Any) -> list[Run]:
        """Runs, newest first; arguments as `RunQuery`."""
        return self.call(api.LIST_RUNS, model.RunQuery(**query))

    def get_queue(self, dut: str) -> list[Run]:
        """What plays and waits for a device, in order."""
        return self.call(api.GET_QUEUE, model.DutName(dut=dut))

    def get_run(self, run: int) -> Run:
        """One run."""
        return self.call(api.GET_RUN, model.RunName(run=run))

    def cancel_run(self, run: int) -> Run:
        """Stop a run, or take it off its queue."""
        return self.call(api.CANCEL_RUN, model.RunName(run=run))

    def follow_run(self, run: int) -> Iterator[model.Event]:
        """Its log and states, to its end."""
        with self._open(api.FOLLOW_RUN, model.RunName(run=run)) as answer:
            for line in answer:
                if line.startswith(b"data: "):
                    yield msgspec.json.decode(line.removeprefix(b"data: "), type=model.Event)

    def get_report(self, run: int) -> dict[str, Any]:
        """The facts of its report."""
        return self.call(api.GET_REPORT, model.RunName(run=run))

    def judge(self, run: int, *, expect: str | None = None, rules: str | None = None) -> dict[str, Any]:
        """The verdict on a run by stored rules, or by the text of a rules file."""
        return self.call(api.JUDGE, model.Judge(run=run, expect=expect, rules=rules))

    def compare(self, baseline: Sequence[int], other: Sequence[int], *, force: bool = False) -> dict[str, Any]:
        """Groups of runs, class by class."""
        return self.call(api.COMPARE, model.CompareQuery(baseline=baseline, other=other, force=force))

    def get_trend(self, *, dut: str, series: str) -> list[model.TrendPoint]:
        """One spec on one device over time."""
        return self.call(api.GET_TREND, model.TrendQuery(dut=dut, series=series))

    def list_reservations(self) -> list[model.Reservation]:
        """All that are not over."""
        return self.call(api.LIST_RESERVATIONS, model.Nothing())

    def reserve(self, *, dut: str, begin: datetime, end: datetime) -> model.Reservation:
        """Keep a device for your own runs; times have a zone."""
        return self.call(api.RESERVE, model.Reserve(dut=dut, begin=begin, end=end))

    def release(self, reservation: int) -> None:
        """End a reservation."""
        self.call(api.RELEASE, model.ReservationName(reservation=reservation))

    def _open(self, operation: ServiceOperation[Q, A], asked: Q, files: Sequence[Path] = ()) -> HTTPResponse:
        fields = {name: value for name, value in msgspec.to_builtins(asked).items() if value is not None}
        path = operation.path.format_map({name: urllib.parse.quote(str(value), "") for name, value in fields.items()})
        fields = {name: value for name, value in fields.items() if f"{{{name}}}" not in operation.path}
        body: bytes | Iterable[bytes] | None = None
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        if operation.takes_files:
            form = _Form(fields, files)
            body, headers = form.chunks(), headers | form.headers
        elif operation.method == "POST":
            body = msgspec.json.encode(fields)
        elif fields:
            path += "?" + urllib.parse.urlencode(fields, doseq=True)
        request = urllib.request.Request(self._url + path, data=body, headers=headers, method=operation.method)
        try:
            answer: HTTPResponse = urllib.request.urlopen(request, timeout=TIMEOUT_S, context=self._tls)
        except urllib.error.HTTPError as error:
            with error:
                raise Refusal(_problem(error.read()), status=error.code) from None
        except OSError as error:
            raise HostError(f"{self._url}: the service does not answer ({error})") from error
        return answer


class _Form:
    """Fields and files as multipart/form-data, in pieces."""

    def __init__(self, fields: Mapping[str, Any], files: Sequence[Path]) -> None:
        boundary, kind = secrets.token_hex(16), "Content-Disposition: form-data; name="
        line = f"--{boundary}\r\n{kind}"
        self._fields = "".join(f'{line}"{name}"\r\n\r\n{value}\r\n' for name, value in fields.items()).encode()
        self._files = {one: f'{line}"files"; filename="{one.name}"\r\n\r\n'.encode() for one in files}
        self._end = f"--{boundary}--\r\n".encode()
        length = len(self._fields) + len(self._end)
        length += sum(len(head) + one.stat().st_size + 2 for one, head in self._files.items())
        self.headers = {"Content-Type": f"multipart/form-data; boundary={boundary}", "Content-Length": str(length)}

    def chunks(self) -> Iterator[bytes]:
        """All of it."""
        yield self._fields
        for one, head in self._files.items():
            yield head
            with one.open("rb") as file:
                yield from iter(lambda: file.read(_CHUNK_BYTES), b"")
            yield b"\r\n"
        yield self._end


def _problem(body: bytes) -> str:
    try:
        return str(msgspec.json.decode(body)["error"])
    except (msgspec.DecodeError, KeyError, TypeError):
        return body.decode(errors="replace")[:300]
