"""Who may do what over HTTP: every route of the application, forged forms, foreign pages, sizes, what pages escape."""

import asyncio
import gzip
import html
import io
import json
import re
import shutil
import ssl
from datetime import timedelta
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from yarl import URL

from charkha.service import Client, HostError, Refusal, Role, State
from emulator.annexes.launch.authority import issue, make_authority
from emulator.annexes.service.configuration import Configuration, ServiceFolder
from emulator.annexes.service.http import COOKIE, LARGEST_BODY_BYTES
from emulator.annexes.service.service import Service
from emulator.annexes.service.serving import opened, serving
from emulator.control.certificates.roles import Role as Certified
from emulator.control.parameter import Parameter
from emulator.results.run_folder.writer import RunWriter
from tests.support.command import EXAMPLE
from tests.support.repeated import write_runs
from tests.support.runs import manifest, ranks
from tests.support.service import QUICK, add_users, in_this_process

KEYED = ("GET", "/runs/1/live/1/state")
PUBLIC = {("GET", "/health"), ("GET", "/login"), ("POST", "/login"), ("GET", "/back"), KEYED}
HOSTILE = "<script>alert(1)</script>\u202e"
TOKENS = ("viewer", "operator", "admin")


@pytest.fixture
def tokens(tmp_path: Path) -> dict[str, str]:
    return add_users(tmp_path, viewer=Role.VIEWER, operator=Role.OPERATOR, admin=Role.ADMIN)


class Asking:
    """Requests of one user; `token` None: of nobody."""

    def __init__(self, session: aiohttp.ClientSession, url: str, token: str | None) -> None:
        self._session, self.url = session, url
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}

    async def __call__(self, method: str, path: str, *, headers: dict[str, str] | None = None, **options):
        sent = {**self._headers, **(headers or {})}
        arguments = {"headers": sent, "allow_redirects": False, **options}
        async with self._session.request(method, self.url + path, **arguments) as found:
            return found.status, await found.text(), found.headers


def _filled(route: web.AbstractRoute) -> tuple[str, str]:
    path = route.resource.canonical
    return route.method, re.sub(r"{(\w+)}", lambda name: {"path": "", "dut": "loopback"}.get(name[1], "1"), path)


async def test_every_route_needs_a_user_with_its_role(tmp_path: Path, tokens: dict[str, str]) -> None:
    async with in_this_process(tmp_path) as (routes, url), aiohttp.ClientSession() as session:
        roles = routes.roles()
        assert set(roles) == set(routes.application.router.routes()), "a route was added without its role"
        assert {_filled(route) for route, role in roles.items() if role is None} == PUBLIC
        for route, needed in roles.items():
            if needed is None or "events" in _filled(route)[1]:
                continue
            method, path = _filled(route)
            assert (await Asking(session, url, None)(method, path))[0] == 401, path
            assert (await Asking(session, url, "wrong")(method, path))[0] == 401, path
            for name in TOKENS:
                status, text, _ = await Asking(session, url, tokens[name])(method, path, json={})
                is_refused = status == 403 and "this needs the role" in text
                assert is_refused is not Role(name).includes(needed), (method, path, name, status, text)
                assert status not in (401, 500), (method, path, name, text)


async def test_nothing_answers_without_a_token_but_health_and_login(tmp_path: Path, tokens: dict[str, str]) -> None:
    async with in_this_process(tmp_path) as (_, url), aiohttp.ClientSession() as session:
        nobody = Asking(session, url, None)
        for path in ("/nowhere", "/api/v1/nowhere", "/openapi.json", "/api/v1/runs/1/events", "/service.js", "//etc"):
            assert (await nobody("GET", path))[0] == 401, path
        assert (await nobody(*KEYED))[0] == 404
        status, _, headers = await nobody("GET", "/", headers={"Accept": "text/html"})
        assert (status, headers["Location"]) == (303, "/login")
        assert (await nobody("GET", "/health"))[:2] == (200, '{"status": "ok"}')


async def test_a_browser_logs_in_and_its_forms_cannot_be_forged(tmp_path: Path, tokens: dict[str, str]) -> None:
    jar = aiohttp.CookieJar(unsafe=True)
    async with in_this_process(tmp_path) as (_, url), aiohttp.ClientSession(cookie_jar=jar) as session:
        page = Asking(session, url, None)
        assert (await page("POST", "/login", data={"token": "wrong"}))[0] == 401
        status, _, headers = await page("POST", "/login", data={"token": tokens["operator"]})
        assert status == 303
        assert {"HttpOnly", "SameSite=Strict"} <= set(headers["Set-Cookie"].split("; "))
        assert tokens["operator"] not in headers["Set-Cookie"]
        _, text, headers = await page("GET", "/", headers={"Accept": "text/html"})
        assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
        form_token = re.search(r'name="form_token" value="(\w+)"', text)

        form = {"dut": "loopback", "spec.1": QUICK}
        assert (await page("POST", "/start", data=form))[0] == 403
        assert (await page("POST", "/start", data={**form, "form_token": "0" * 64}))[0] == 403
        own = {**form, "form_token": form_token[1]}
        assert (await page("POST", "/start", data=own, headers={"Origin": "http://evil.example"}))[0] == 403
        assert (await page("POST", "/api/v1/runs", json={"dut": "loopback", "spec": QUICK}))[0] == 401
        assert (await page("GET", "/api/v1/runs"))[1] == "[]"
        status, _, headers = await page("POST", "/start", data=own, headers={"Origin": url})
        assert (status, headers["Location"]) == (303, "/runs/1")

        for token, expected in (("0" * 64, (403, None)), (form_token[1], (303, "/start?dut=loopback&workload="))):
            upload = aiohttp.FormData({"form_token": token, "name": "mine"})
            for file in EXAMPLE.iterdir():
                upload.add_field("files", file.read_bytes(), filename=file.name)
            status, _, headers = await page("POST", "/traces", data=upload)
            assert (status, headers.get("Location", None) and headers["Location"][:29]) == expected
        assert (await page("POST", "/traces", data=b"--y", headers=PARTS))[0] == 400
        assert 'value="trace:operator/mine" selected' in (await page("GET", headers["Location"]))[1]

        assert (await page("POST", "/logout", data={"form_token": form_token[1]}))[0] == 303
        session.cookie_jar.update_cookies({COOKIE: "gone"})
        assert (await page("GET", "/api/v1/me"))[0] == 401


FORM = {"Content-Type": "application/x-www-form-urlencoded"}
PARTS = {"Content-Type": "multipart/form-data; boundary=x"}


def parts(header: str, *, count: int = 1, name: str = 'name="token"') -> bytes:
    one = f"--x\r\nContent-Disposition: form-data; {name}\r\n{header}\r\n\r\na\r\n"
    return (count * one + "--x--\r\n").encode()


BODIES = {
    "of another charset": ({"Content-Type": f"{FORM['Content-Type']}; charset=nonsense"}, b"a=b", 401),
    "of bytes": (FORM, b"\xff\xfe=\xff", 400),
    "of bytes in escapes": (FORM, b"token=%ff%fe", 400),
    "of many fields": (FORM, b"a=&" * 2000, 400),
    "in parts": (PARTS, parts("A: b"), 401),
    "in parts of nothing": ({"Content-Type": "multipart/form-data"}, b"x", 400),
    "in parts of another charset": (PARTS, parts("Content-Type: text/plain; charset=nonsense"), 400),
    "in parts that are not what they say": (
        PARTS,
        parts("Content-Encoding: nonsense", name='name="a"; filename="a"'),
        401,
    ),
    "in parts that are not compressed": (PARTS, parts("Content-Encoding: gzip", name='name="a"; filename="a"'), 401),
    "in many parts": (PARTS, parts("A: b", count=2000), 413),
    "that says no type": ({"Content-Type": ""}, b"token=a", 415),
    "compressed": (FORM | {"Content-Encoding": "gzip"}, gzip.compress(b"token=a"), 415),
    "that is not what it says": (FORM | {"Content-Encoding": "deflate"}, b"nonsense", 415),
}


@pytest.mark.parametrize("body", BODIES)
async def test_a_stranger_cannot_break_a_form(body: str, tmp_path: Path) -> None:
    headers, content, status = BODIES[body]
    async with in_this_process(tmp_path) as (_, url), aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as one:
        assert (await Asking(one, url, None)("POST", "/login", headers=headers, data=content))[0] == status
        found = await Asking(one, url, None)("POST", "/api/v1/runs", headers=headers, data=content)
        assert found[0] == 401


async def test_who_gives_no_text_is_nobody(tmp_path: Path, tokens: dict[str, str]) -> None:
    """Headers hold bytes, and names in paths what is no token: neither is an error of the service."""
    async with in_this_process(tmp_path) as (_, url):
        for header in ("Authorization: Bearer", "Authorization: Basic", f"Cookie: {COOKIE}="):
            for path, status in (("/api/v1/me", 401), ("/login", 200)):
                assert await _status_of(url, path, f"{header} ".encode() + b"\xff\xfe") == status
        nobody = "/runs/1/live/%C3%A9/state", f"/runs/{'9' * 5000}/live/x/state"
        assert [await _status_of(url, path, b"A: b") for path in nobody] == [404, 400]


async def _status_of(url: str, path: str, header: bytes) -> int:
    reader, writer = await asyncio.open_connection("127.0.0.1", URL(url).port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n".encode() + header + b"\r\n\r\n")
    line = await reader.readline()
    writer.close()
    return int(line.split()[1])


async def test_a_session_is_proved_by_text_alone(tmp_path: Path, tokens: dict[str, str]) -> None:
    async with (
        in_this_process(tmp_path) as (_, url),
        aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session,
    ):
        browser = Asking(session, url, None)
        assert (await browser("POST", "/login", data={"token": tokens["operator"]}))[0] == 303
        assert (await browser("POST", "/logout", data={"form_token": "é"}))[0] == 403
        form = re.search(r'name="form_token" value="(\w+)"', (await browser("GET", "/start"))[1])
        assert form is not None
        for number in ("9" * 5000, str(1 << 64)):
            path = f"/reservations/{number}/release"
            assert (await browser("POST", path, data={"form_token": form[1]}))[0] == 400


async def test_users_act_on_what_is_theirs(tmp_path: Path, tokens: dict[str, str]) -> None:
    tokens |= add_users(tmp_path, bob=Role.OPERATOR)
    async with in_this_process(tmp_path) as (_, url), aiohttp.ClientSession() as session:
        ann, bob, admin = (Asking(session, url, tokens[name]) for name in ("operator", "bob", "admin"))
        for _ in range(2):
            await ann("POST", "/api/v1/runs", json={"dut": "loopback", "spec": QUICK})
        assert (await bob("POST", "/api/v1/runs/1/cancel"))[0] == 403
        assert '"cancelled"' in (await ann("POST", "/api/v1/runs/1/cancel"))[1]
        assert (await ann("POST", "/api/v1/runs/1/cancel"))[0] == 409
        assert '"cancelled"' in (await admin("POST", "/api/v1/runs/2/cancel"))[1]
        times = {"begin": "2999-01-01T00:00:00Z", "end": "2999-01-01T01:00:00Z"}
        assert (await ann("POST", "/api/v1/reservations", json={"dut": "loopback", **times}))[0] == 200
        assert (await bob("POST", "/api/v1/reservations", json={"dut": "loopback", **times}))[0] == 409
        assert (await bob("DELETE", "/api/v1/reservations/1"))[0] == 403
        assert (await ann("DELETE", "/api/v1/reservations/1"))[0] == 200
        assert (await admin("DELETE", "/api/v1/users/admin"))[0] == 409
        assert (await admin("DELETE", "/api/v1/users/bob"))[0] == 200
        assert (await bob("GET", "/api/v1/me"))[0] == 401


async def test_what_does_not_fit_is_refused_by_name(tmp_path: Path, tokens: dict[str, str]) -> None:
    async with in_this_process(tmp_path) as (_, url), aiohttp.ClientSession() as session:
        ask = Asking(session, url, tokens["admin"])
        for body, problem in (
            ({"json": {"dut": "loopback"}}, "the key 'spec' is missing"),
            (
                {"json": {"dut": "loopback", "spec": QUICK, "repeats": 2}},
                "unknown key 'repeats'; did you mean 'repeat'",
            ),
            ({"json": {"dut": "nowhere", "spec": QUICK}}, "there is no device 'nowhere'"),
            ({"json": {"dut": "loopback", "spec": "x" * (300 << 10)}}, "spec: "),
            ({"json": [1]}, "not a JSON object"),
            ({"data": b"{"}, "the body is not JSON"),
            ({"data": b"[" * 100_000}, "nested too deeply"),
            ({"data": io.BytesIO(b"x" * (LARGEST_BODY_BYTES + 1))}, "size"),
        ):
            status, text, _ = await ask("POST", "/api/v1/runs", **body)
            assert status in (400, 404, 413), text
            assert problem in text
        for path in ("/api/v1/runs/0", "/api/v1/runs/x", "/api/v1/runs?limit=0", "/api/v1/runs?state=odd"):
            assert (await ask("GET", path))[0] == 400, path
        assert (await ask("GET", "/runs/99999999999999999999"))[0] == 400


async def test_a_mistake_in_a_form_comes_back_beside_its_line_and_nothing_is_queued(
    tmp_path: Path, tokens: dict[str, str]
) -> None:
    jar = aiohttp.CookieJar(unsafe=True)
    async with in_this_process(tmp_path) as (_, url), aiohttp.ClientSession(cookie_jar=jar) as session:
        page = Asking(session, url, None)
        await page("POST", "/login", data={"token": tokens["operator"]})
        token = re.search(r'name="form_token" value="(\w+)"', (await page("GET", "/start"))[1])
        assert token is not None
        good = "charkha: 1\njobs:\n- trace: {path: transformer-8r}\n  iterations: 2\n"
        form = {"dut": "loopback", "repeat": "3", "spec.1": good, "name.1": "first", "name.2": "second"}
        for wrong, line, problem in (
            (good.replace("iterations", "iteration"), 4, "did you mean"),
            (good.replace("jobs:", "jobs: @"), 2, "is not valid YAML"),
            (good.replace("transformer-8r", "transformer-8"), 3, "did you mean &#39;transformer-8r&#39;"),
            (good + "network: {topology: rail-4x4}\n", 5, "takes only loopback"),
        ):
            typed = f"{wrong}# a remark of the user"
            status, text, _ = await page("POST", "/start", data={**form, "spec.2": typed, "form_token": token[1]})
            assert status == 400
            assert html.escape(typed, quote=True) in text.replace("&#34;", "&quot;")
            assert html.escape(good) in text
            assert 'name="repeat" type="number" min="1" max="99" value="3"' in text
            marked = re.search(r'<span class="wrong">\s*(\d+)  .*?← (.*?)</span>', text)
            assert marked is not None, text
            assert (int(marked[1]), problem in marked[2]) == (line, True), marked[0]
        assert (await page("GET", "/api/v1/runs"))[1] == "[]", "also the spec without a mistake was not queued"


async def test_what_users_submit_counts_towards_their_quota(tmp_path: Path, tokens: dict[str, str]) -> None:
    tokens |= add_users(tmp_path, bob=Role.OPERATOR)
    async with in_this_process(tmp_path, quota_bytes=20_000) as (_, url), aiohttp.ClientSession() as session:
        ann, bob = (Asking(session, url, tokens[name]) for name in ("operator", "bob"))
        large = {"dut": "loopback", "spec": f"# {'x' * 20_000}\n{QUICK}"}
        assert (await ann("POST", "/api/v1/runs", json=large))[0] == 200
        status, text, _ = await ann("POST", "/api/v1/runs", json={"dut": "loopback", "spec": QUICK})
        assert status == 507
        assert re.search(r"the files of operator use 19.76 KiB of 19.53 KiB, the disk_quota of a user", text), text
        assert (await bob("POST", "/api/v1/runs", json={"dut": "loopback", "spec": QUICK}))[0] == 200


def large(file: bytes, *, name: str = "trace.0.et", form_name: str = "mine") -> aiohttp.FormData:
    form = aiohttp.FormData({"name": form_name})
    for content, filename in ((file, name), (b"", "trace.1.et")):
        form.add_field("files", io.BytesIO(content), filename=filename)
    return form


async def test_files_of_any_size_come_within_the_quota(tmp_path: Path, tokens: dict[str, str]) -> None:
    quota = 3 * LARGEST_BODY_BYTES
    async with in_this_process(tmp_path, quota_bytes=quota) as (routes, url), aiohttp.ClientSession() as session:
        ask, path = Asking(session, url, tokens["operator"]), "/api/v1/traces"
        refused = (
            (large(bytes(quota + 1)), 507, "the files are larger than the 3 MiB that are left of disk_quota"),
            (large(b"", name="../trace.0.et"), 400, "name: "),
            (large(b"", form_name="../mine"), 400, "name: "),
            (large(b"", form_name="x" * 5000), 413, "too large"),
            (large(b"", name="notes.txt"), 400, "charkha trace convert"),
            (large(b"", name="trace.1.et"), 400, "such a file already"),
        )
        nested = aiohttp.FormData({"name": "mine"})
        nested.add_field("files", io.BytesIO(b"--y--"), content_type="multipart/mixed; boundary=y")
        for form, expected, problem in (*refused, (nested, 400, "form as a part")):
            status, text, _ = await ask("POST", path, data=form)
            assert (status, problem in text) == (expected, True), text
        assert (await ask("POST", path, json={"name": "mine"}))[0] == 415
        for ending in (b"", b"--x", b'--x\r\nContent-Disposition: form-data; name="name"\r\n\r\nmi'):
            assert (await ask("POST", path, data=ending, headers=PARTS))[0] == 400, ending
        assert list(routes.service.place.uploads.iterdir()) == [], "nothing of them is left"
        assert (await ask("POST", path, data=large(bytes(2 * LARGEST_BODY_BYTES))))[0] == 200
        kept, _ = sorted((routes.service.place.uploads / "operator" / "mine").iterdir())
        assert kept.stat().st_size == 2 * LARGEST_BODY_BYTES
        status, text, _ = await ask("POST", path, data=large(bytes(2 * LARGEST_BODY_BYTES), form_name="other"))
        assert (status, "1 MiB that are left" in text) == (507, True), text


async def test_a_client_sends_files_as_they_are(tmp_path: Path, tokens: dict[str, str]) -> None:
    async with in_this_process(tmp_path) as (routes, url):
        client = Client(url, tokens["operator"])
        made = await asyncio.to_thread(client.add_trace, "mine", EXAMPLE.iterdir())
        kept = {one.name: one.read_bytes() for one in (routes.service.place.uploads / made.name).iterdir()}
        assert kept == {one.name: one.read_bytes() for one in EXAMPLE.iterdir()}
        with pytest.raises(Refusal, match="operator has a trace mine"):
            await asyncio.to_thread(client.add_trace, "mine", EXAMPLE.iterdir())


async def test_the_progress_of_a_run_that_plays_is_on_every_page_and_in_every_answer(
    tmp_path: Path, tokens: dict[str, str]
) -> None:
    async with in_this_process(tmp_path) as (routes, url), aiohttp.ClientSession() as session:
        ask = Asking(session, url, tokens["operator"])
        for _ in range(2):
            await ask("POST", "/api/v1/runs", json={"dut": "loopback", "spec": QUICK})
        routes.service.store.start_run(1)
        facts = manifest(parameters={"iterations": Parameter(4)})
        with RunWriter(routes.service.place.run(1).results, facts) as writer:
            writer.add_iteration(0, ranks((0, 2_500_000_000), (0, 2_500_000_000)))
            writer.flush()
            for path in ("/", "/runs", "/runs/1"):
                text = (await ask("GET", path))[1]
                assert text.count('<progress max="4" value="1" aria-label="progress of run 1">') == 1, path
                assert "<span>about 7.5 s left</span>" in text, path
            assert "<progress" not in (await ask("GET", "/runs/2"))[1]
            for path in ("/runs", "/runs/1", "/duts/loopback/queue"):
                assert '"progress":{"done":1,"planned":4,"left_s":7.5}' in (await ask("GET", f"/api/v1{path}"))[1], path
            async with asyncio.timeout(60):
                headers = {"Authorization": f"Bearer {tokens['viewer']}"}
                async with session.get(f"{url}/api/v1/runs/1/events", headers=headers) as events:
                    assert b'"left_s":7.5' in await events.content.readline()
        routes.service.store.end_run(1, State.COMPLETE)
        assert "<progress" not in (await ask("GET", "/runs"))[1]


async def test_one_trace_of_a_user_comes_at_a_time_and_in_time(
    tmp_path: Path, tokens: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    began, release = asyncio.Event(), asyncio.Event()
    monkeypatch.setattr("emulator.annexes.service.http.REQUEST_S", 0.5)
    monkeypatch.setattr("emulator.annexes.service.http.LEAST_BYTES_PER_S", 1 << 30)

    async def slow():
        yield parts("A: b", name='name="name"').removesuffix(b"--x--\r\n")
        yield b'--x\r\nContent-Disposition: form-data; name="files"; filename="t.0.et"\r\n\r\n' + bytes(1 << 20)
        began.set()
        await release.wait()

    async with in_this_process(tmp_path) as (routes, url), aiohttp.ClientSession() as session:
        ask, path = Asking(session, url, tokens["operator"]), "/api/v1/traces"
        first = asyncio.create_task(ask("POST", path, data=slow(), headers=PARTS))
        await began.wait()
        status, text, _ = await ask("POST", path, data=large(b""))
        assert (status, "uploading another trace" in text) == (429, True), text
        status, text, _ = await first
        assert (status, "did not come" in text) == (408, True), text
        release.set()
        assert list(routes.service.place.uploads.iterdir()) == []
        status, text, _ = await ask("POST", path, data=large(b""))
        assert status == 200, text


async def test_rules_are_stored_and_runs_judged_again_by_them(tmp_path: Path, tokens: dict[str, str]) -> None:
    met, failed = (f"rules: [{{metric: jct, at_most: {limit}}}]" for limit in ("100 s", "1 ns"))
    async with (
        in_this_process(tmp_path) as (routes, url),
        aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session,
    ):
        ask, page = Asking(session, url, tokens["operator"]), Asking(session, url, None)
        await ask("POST", "/api/v1/runs", json={"dut": "loopback", "spec": QUICK})
        assert (await ask("POST", "/api/v1/runs/1/judge", json={}))[0] == 409, "it has not been played"
        (made,) = write_runs(tmp_path / "made", runs=1, seed=1)
        shutil.copytree(made.folder, routes.service.place.run(1).results)
        routes.service.store.start_run(1)
        routes.service.store.end_run(1, State.COMPLETE)
        assert (await ask("POST", "/api/v1/rules", json={"name": "strict", "text": failed}))[0] == 200
        for asked, outcome in (({"expect": "operator/strict"}, "FAIL"), ({"rules": met}, "PASS"), ({}, None)):
            status, text, _ = await ask("POST", "/api/v1/runs/1/judge", json=asked)
            assert status == 200, text
            assert outcome in (None, json.loads(text)["outcome"])
        both = {"expect": "example", "rules": met}
        for wrong, problem in ((both, "not both"), ({"rules": "rules: []"}, "rules:1"), ({"expect": "x"}, "USER/NAME")):
            status, text, _ = await ask("POST", "/api/v1/runs/1/judge", json=wrong)
            assert (status, problem in text) == (400, True), text

        await page("POST", "/login", data={"token": tokens["operator"]})
        token = re.search(r'name="form_token" value="(\w+)"', (await page("GET", "/runs/1"))[1])
        own = {"form_token": token[1], "expect": "operator/strict", "rules": "\r\n"}
        assert (await page("POST", "/runs/1/judge", data={**own, "form_token": "0"}))[0] == 403
        status, text, headers = await page("POST", "/runs/1/judge", data=own)
        assert (status, "FAIL" in text, 'id="way-back"' in text) == (200, True, True)
        assert headers["Content-Security-Policy"] == "sandbox allow-scripts"
        for file, typed, status in ((met, "", 303), ("", met, 303), (met, met, 400), ("", "", 400), ("\xff", "", 400)):
            form = aiohttp.FormData({"form_token": token[1], "name": f"of-{len(file)}-{len(typed)}", "text": typed})
            form.add_field("file", file.encode("latin-1"), filename="rules.yaml" if file else "")
            found, text, headers = await page("POST", "/rules", data=form)
            assert found == status, text
        assert f'<option value="operator/of-{len(met)}-0">' in (await page("GET", "/start"))[1]


async def test_pages_escape_what_users_wrote(tmp_path: Path, tokens: dict[str, str]) -> None:
    async with in_this_process(tmp_path) as (routes, url), aiohttp.ClientSession() as session:
        ask = Asking(session, url, tokens["admin"])
        dut = {"name": "odd", "about": HOSTILE}
        assert (await ask("POST", "/api/v1/duts", json=dut))[0] == 200
        submitted = {"dut": "odd", "spec": f"# {HOSTILE}\n{QUICK}", "name": HOSTILE}
        assert (await ask("POST", "/api/v1/runs", json=submitted))[0] == 200
        paths = (
            "/",
            "/runs",
            "/runs/1",
            "/start?again=1",
            f"/start?workload=trace:{HOSTILE}",
            "/trend?dut=odd&series=x",
        )
        for path in paths:
            _, text, headers = await ask("GET", path, headers={"Accept": "text/html"})
            assert headers["Content-Type"].startswith("text/html")
            assert "<script>alert" not in text, path
            assert ("\u202e" in text) == (path == "/start?again=1"), "only what is edited is as it was typed"
        assert isinstance(routes.service, Service)


async def test_over_tls_the_certificate_is_checked_and_cookies_travel_nowhere_else(tmp_path: Path) -> None:
    make_authority(tmp_path / "authority", name="authority")
    issued = issue(
        tmp_path / "authority", "lab", role=Certified.CONTROLLER, addresses=["127.0.0.1"], valid=timedelta(days=1)
    )
    (token,) = add_users(tmp_path / "lab", ann=Role.ADMIN).values()
    configuration = Configuration(listen="0", identity=str(issued.path))
    with opened(ServiceFolder(tmp_path / "lab")) as store:
        async with serving(store, ServiceFolder(tmp_path / "lab"), configuration) as url:
            assert url.startswith("https://127.0.0.1:")
            own = Client(url, token, authority=tmp_path / "authority" / "authority.pem")
            assert (await asyncio.to_thread(own.who)).name == "ann"
            with pytest.raises(HostError, match="CERTIFICATE_VERIFY_FAILED"):
                await asyncio.to_thread(Client(url, token).who)
            trust = ssl.create_default_context(cafile=tmp_path / "authority" / "authority.pem")
            async with aiohttp.ClientSession() as session:
                page = Asking(session, url.rstrip("/"), None)
                headers = (await page("POST", "/login", data={"token": token}, ssl=trust))[2]
                assert "Secure" in headers["Set-Cookie"]
