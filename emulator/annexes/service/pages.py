"""Pages for people: they show what the operations answer, and their forms perform operations."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

import jinja2
from aiohttp import web
from markupsafe import Markup, escape

from emulator.annexes.service import history, model
from emulator.annexes.service.catalogue import PAIRS
from emulator.annexes.service.http import (
    COOKIE,
    PROBLEM_PAGE,
    FormWithFiles,
    Routes,
    asked_of,
    decoded,
    fields_of,
    form_of,
    form_token_of,
    known_user,
    query_of,
    user,
)
from emulator.annexes.service.live_pages import LivePages
from emulator.annexes.service.model import Refusal, Role, Run, State
from emulator.annexes.service.service import ReadSpec
from emulator.annexes.service.store import SESSION_S
from emulator.errors import InputError, TopologyError
from emulator.results.run_folder.manifest import REPORT
from emulator.results.run_folder.store import is_run_folder
from emulator.trace.meaning.names import COLLECTIVES
from emulator.units import format_duration
from emulator.views.columns.columns import Header, filled
from emulator.views.columns.figures import NONE
from emulator.views.columns.result_columns import RESULT_COLUMNS
from emulator.views.html.comparison_page import comparison_page
from emulator.views.html.page.document import Page, render, shown
from emulator.views.html.run_page import run_page
from emulator.views.html.sections.overview import TONES
from emulator.visible import visible, visible_lines

_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'self'; connect-src 'self'; form-action 'self';"
    " img-src data:; base-uri 'none'; frame-ancestors 'none'"
)
_SANDBOX = "sandbox allow-scripts"
"""Reports and live pages have scripts inside; in a sandbox they cannot act for their readers, whatever a run holds."""
_CHOICES = ("topology", "profile", "iterations", "ranks", "sizes", "vary", "expect")
"""Fields of the form that are those of `Compose`."""
_SAMPLE_RULES = "rules:\n  - {metric: retransmissions, at_most: 0}"
_LINES_AROUND = 3
"""Lines of a run spec that are shown before and after the one with a mistake."""
_ABOUT_STATE = {State.COMPLETE: "good", State.FAILED: "bad", State.INTERRUPTED: "bad", State.RUNNING: "busy"}


class _Typed(NamedTuple):
    """A run spec in a form; `excerpt`: lines around its mistake, with their numbers and whether it is theirs."""

    name: str
    spec: str
    problem: str | None = None
    excerpt: Sequence[tuple[int, str, bool]] = ()


class _Listed(NamedTuple):
    """Runs for a table: a row is a run, and a cell for each of the columns."""

    columns: Sequence[Header]
    rows: Sequence[tuple[Run, Sequence[str]]]


class Pages:
    """The handlers of all pages."""

    def __init__(self, routes: Routes, live: LivePages) -> None:
        self._service, self._is_secret, self._live = routes.service, routes.is_secret, live
        routes.application[PROBLEM_PAGE] = self._problem
        for method, path, handler, role in (
            ("GET", "/login", self._login, None),
            ("POST", "/login", self._log_in, None),
            ("POST", "/logout", self._log_out, Role.VIEWER),
            ("GET", PATH, lead_back, None),
            ("GET", "/service.js", self._script, Role.VIEWER),
            ("GET", "/", self._overview, Role.VIEWER),
            ("GET", "/runs", self._runs, Role.VIEWER),
            ("GET", "/runs/{run:\\d+}", self._run, Role.VIEWER),
            ("POST", "/runs/{run:\\d+}/cancel", self._cancel, Role.OPERATOR),
            ("GET", "/runs/{run:\\d+}/report", self._report, Role.VIEWER),
            ("GET", "/runs/{run:\\d+}/live/", self._live_page, Role.VIEWER),
            ("GET", "/runs/{run:\\d+}/live/{key}/", self._live_page, Role.VIEWER),
            ("GET", "/runs/{run:\\d+}/live/{key}/state", self._live_state, None),
            ("GET", "/compare", self._compare, Role.VIEWER),
            ("GET", "/trend", self._trend, Role.VIEWER),
            ("GET", "/start", self._start, Role.OPERATOR),
            ("POST", "/start", self._submit, Role.OPERATOR),
            ("POST", "/traces", self._upload, Role.OPERATOR),
            ("POST", "/rules", self._add_rules, Role.OPERATOR),
            ("POST", "/runs/{run:\\d+}/judge", self._judge, Role.VIEWER),
            ("POST", "/reservations", self._reserve, Role.OPERATOR),
            ("POST", "/reservations/{reservation:\\d+}/release", self._release, Role.OPERATOR),
        ):
            routes.add(method, path, handler, role=role, takes_files=handler == self._upload)

    async def _login(self, request: web.Request) -> web.Response:
        return _show(request, "login.html")

    async def _log_in(self, request: web.Request) -> web.Response:
        found = self._service.store.user_of_token((await fields_of(request)).get("token", "").strip())
        if found is None:
            return _show(request, "login.html", status=401, problem="There is no user with this token.")
        answer = _see("/")
        secret = self._service.store.begin_session(found.name)
        answer.set_cookie(
            COOKIE, secret, max_age=SESSION_S, httponly=True, samesite="Strict", secure=self._is_secret, path="/"
        )
        return answer

    async def _log_out(self, request: web.Request) -> web.Response:
        await form_of(request)
        self._service.store.end_session(request.cookies.get(COOKIE, ""))
        answer = _see("/login")
        answer.del_cookie(COOKIE)
        return answer

    async def _script(self, request: web.Request) -> web.Response:
        return web.Response(text=_source("service.js"), content_type="text/javascript")

    async def _overview(self, request: web.Request) -> web.Response:
        store, reservations = self._service.store, self._service.store.reservations(datetime.now(UTC).timestamp())
        queues = {dut.name: await self._service.get_queue(user(), model.DutName(dut=dut.name)) for dut in store.duts()}
        devices = [
            (dut, queues[dut.name], [one for one in reservations if one.dut == dut.name]) for dut in store.duts()
        ]
        latest = await self._listed(_over(store.runs(model.RunQuery(limit=30))))
        return _show(request, "overview.html", devices=devices, latest=latest)

    async def _runs(self, request: web.Request) -> web.Response:
        which: model.RunQuery = asked_of(query_of(request, model.RunQuery), model.RunQuery, is_text=True)
        runs, duts = await self._service.list_runs(user(), which), self._service.store.duts()
        chosen = {name: value for name, value in request.query.items() if value and name not in ("before", "limit")}
        older = {**chosen, "before": str(runs[-1].id)} if len(runs) == which.limit else None
        listed, plays = await self._listed(runs), any(run.progress for run in runs)
        return _show(
            request, "runs.html", listed=listed, plays=plays, duts=duts, which=which, older=older, states=list(State)
        )

    async def _listed(self, runs: Sequence[Run]) -> _Listed:
        folders = [self._service.place.run(run.id).results for run in runs]
        return await asyncio.to_thread(_list_results, runs, folders)

    async def _run(self, request: web.Request) -> web.Response:
        viewer = user()
        run = await self._service.get_run(viewer, model.RunName(run=self._asked_run(request).id))
        files = self._service.place.run(run.id)
        can_be_judged = run.state.is_over and is_run_folder(files.results)
        return _show(
            request,
            "run.html",
            run=run,
            spec=files.submitted.read_text(encoding="utf-8"),
            has_report=(files.results / REPORT).is_file(),
            rules=(await self._service.list_stored(viewer, model.Nothing())).rules if can_be_judged else None,
            may_cancel=not run.state.is_over and (run.user == viewer.name or viewer.role.includes(Role.ADMIN)),
        )

    async def _cancel(self, request: web.Request) -> web.Response:
        await form_of(request)
        run = self._asked_run(request)
        await self._service.cancel_run(user(), model.RunName(run=run.id))
        return _see(f"/runs/{run.id}")

    async def _report(self, request: web.Request) -> web.Response:
        run = self._asked_run(request)
        path = self._service.place.run(run.id).results / REPORT
        if not path.is_file():
            raise Refusal(f"run {run.id} is {run.state} and has no report", status=404)
        text = await asyncio.to_thread(path.read_text, encoding="utf-8")
        return _sandboxed(text, to=f"/runs/{run.id}", name=f"Run {run.id}: {run.name}")

    async def _live_page(self, request: web.Request) -> web.Response:
        run = self._asked_run(request)
        found = await self._live.page(run.id, request.match_info.get("key", ""))
        if found.status != 200 or found.text is None:
            return found
        return _sandboxed(found.text, to=f"/runs/{run.id}", name=f"Run {run.id}: {run.name}")

    async def _live_state(self, request: web.Request) -> web.Response:
        asked: model.RunName = asked_of({"run": request.match_info["run"]}, model.RunName, is_text=True)
        return await self._live.state(asked.run, request.match_info["key"], request.query_string)

    async def _compare(self, request: web.Request) -> web.Response:
        query = query_of(request, model.CompareQuery)
        if not {"baseline", "other"} <= query.keys():
            raise Refusal("choose runs on both sides: A is the baseline, B is compared with it")
        asked: model.CompareQuery = asked_of(query, model.CompareQuery, is_text=True)
        comparison = await self._service.comparison(asked)
        return await _show_page(await asyncio.to_thread(comparison_page, comparison))

    async def _trend(self, request: web.Request) -> web.Response:
        asked: model.TrendQuery = asked_of(query_of(request, model.TrendQuery), model.TrendQuery, is_text=True)
        points = await self._service.get_trend(user(), asked)
        if not points:
            raise Refusal(f"there is no complete run of this series on {asked.dut}", status=404)
        name = self._service.in_trend(asked)[0].name
        return await _show_page(history.trend_page(points, dut=asked.dut, name=name))

    async def _start(self, request: web.Request) -> web.Response:
        query = dict(request.query)
        chosen = {name: query[name] for name in _CHOICES if query.get(name)}
        kind, _, workload = query.get("workload", "").partition(":")
        composed = None
        if workload:
            asked = asked_of({**chosen, kind: workload}, model.Compose, is_text=True)
            composed = await self._service.compose(user(), asked)
        elif query.get("again"):
            run = self._service.store.run(asked_of({"run": query["again"]}, model.RunName, is_text=True).run)
            query["dut"] = run.dut
            composed = model.Composed(specs={run.name: self._service.place.run(run.id).submitted.read_text("utf-8")})
        specs = [_Typed(name, text) for name, text in composed.specs.items()] if composed else []
        return await self._show_start(request, query, specs, left_out=composed.left_out if composed else ())

    async def _show_start(
        self, request: web.Request, chosen: Mapping[str, str], specs: Sequence[_Typed], **more: Any
    ) -> web.Response:
        stored = await self._service.list_stored(user(), model.Nothing())
        duts = self._service.store.duts()
        benches = [*COLLECTIVES, PAIRS]
        return _show(
            request, "start.html", stored=stored, benches=benches, duts=duts, chosen=chosen, specs=specs, **more
        )

    async def _submit(self, request: web.Request) -> web.Response:
        """Queue all run specs of the form, or none: with a mistake in one, the form comes back as it was typed."""
        form = await form_of(request)
        common = {"dut": form.get("dut", ""), "repeat": form.get("repeat") or "1"}
        asked: list[tuple[model.Submit, ReadSpec]] = []
        typed = []
        for number in [name.partition(".")[2] for name in form if name.startswith("spec.")]:
            one = {"spec": form[f"spec.{number}"], "name": form.get(f"name.{number}", "")}
            problem, line = None, None
            try:
                wanted: model.Submit = asked_of({**common, **one}, model.Submit, is_text=True)
                asked.append((wanted, await self._service.read_spec(wanted.dut, wanted.spec)))
            except TopologyError as error:
                problem = f"{error.key}: {error.problem}" if error.key else error.problem
                line = _line_of(error.problem, one["spec"], start=error.line)
            except InputError as error:
                problem, line = str(error), _line_of(str(error), one["spec"])
            typed.append(_Typed(one["name"], one["spec"], problem, _excerpt(one["spec"], line)))
        if any(one.problem for one in typed):
            return await self._show_start(request, common, typed, left_out=(), status=400)
        runs = [run for one, found in asked for run in await self._service.queue(user(), one, found)]
        return _see(f"/runs/{runs[0].id}" if len(runs) == 1 else "/")

    async def _upload(self, request: web.Request) -> web.Response:
        files = FormWithFiles(request)
        asked: model.Upload = asked_of(await form_of(request, files), model.Upload, is_text=True)
        stored = await self._service.add_trace(user(), asked, files.write)
        first = self._service.store.duts()[0].name
        return _see(f"/start?{urlencode({'dut': first, 'workload': f'trace:{stored.name}'})}")

    async def _add_rules(self, request: web.Request) -> web.Response:
        form, file = await form_of(request), (await request.post()).get("file")
        if isinstance(file, web.FileField) and file.filename:
            if form.get("text", "").strip():
                raise Refusal("choose a file or paste the rules, not both")
            form["text"] = decoded(file.file.read(), "the file of rules")
        asked: model.Rules = asked_of(form, model.Rules, is_text=True)
        stored = await self._service.add_rules(user(), asked)
        return _see(f"/start?{urlencode({'dut': self._service.store.duts()[0].name, 'expect': stored.name})}")

    async def _judge(self, request: web.Request) -> web.Response:
        form, run = await form_of(request), self._asked_run(request)
        given = {name: value for name, value in form.items() if value.strip()}
        facts = await self._service.judged(asked_of({**given, "run": run.id}, model.Judge, is_text=True))
        page = await asyncio.to_thread(lambda: render(run_page(facts)))
        return _sandboxed(page, to=f"/runs/{run.id}", name=f"Run {run.id}: {run.name}")

    async def _reserve(self, request: web.Request) -> web.Response:
        form = await form_of(request)
        times = {name: f"{form.get(name, '')}Z" for name in ("begin", "end")}
        asked = asked_of({"dut": form.get("dut", ""), **times}, model.Reserve, is_text=True)
        await self._service.reserve(user(), asked)
        return _see("/")

    async def _release(self, request: web.Request) -> web.Response:
        await form_of(request)
        asked = asked_of({"reservation": request.match_info["reservation"]}, model.ReservationName, is_text=True)
        await self._service.release(user(), asked)
        return _see("/")

    def _asked_run(self, request: web.Request) -> Run:
        asked: model.RunName = asked_of({"run": request.match_info["run"]}, model.RunName, is_text=True)
        return self._service.store.run(asked.run)

    def _problem(self, request: web.Request, status: int, problem: str) -> web.Response:
        return _show(request, "problem.html", status=status, problem=problem)


def _line_of(problem: str, spec: str, *, start: int | None = None) -> int | None:
    """The line of a run spec that a refusal is about: it begins with a word in quotes, or with a key and a colon.

    Args:
        problem: the refusal.
        spec: the run spec.
        start: where the part that has the mistake begins; None: it is not known.
    """
    word, key = re.match(r"(?:unknown key )?'([^']+)'", problem), re.match(r"[\w.]*?(\w+):", problem)
    wanted = word[1] if word else f"{key[1]}:" if key else None
    numbered = list(enumerate(spec.splitlines(), 1))[(start or 1) - 1 :]
    return next((number for number, line in numbered if wanted and wanted in line), start)


def _excerpt(spec: str, line: int | None) -> list[tuple[int, str, bool]]:
    if line is None:
        return []
    numbered = [(number, text, number == line) for number, text in enumerate(spec.splitlines(), 1)]
    return numbered[max(0, line - 1 - _LINES_AROUND) : line + _LINES_AROUND]


def _list_results(runs: Sequence[Run], folders: Sequence[Path]) -> _Listed:
    results = list(map(history.result_of_run, runs, folders))
    columns = filled(RESULT_COLUMNS, results)
    cells = [[column.cell(result) for column in columns] for result in results]
    return _Listed(columns, list(zip(runs, cells, strict=True)))


def _over(runs: Sequence[Run]) -> list[Run]:
    return [run for run in runs if run.state.is_over][:10]


def _see(path: str) -> web.Response:
    return web.Response(status=303, headers={"Location": path})


async def _show_page(page: Page) -> web.Response:
    return _sandboxed(await asyncio.to_thread(render, page), to="/runs", name="Runs")


def _sandboxed(page: str, *, to: str, name: str) -> web.Response:
    text = with_way_back(page, to=to, name=name)
    return web.Response(text=text, content_type="text/html", headers={"Content-Security-Policy": _SANDBOX})


def _show(request: web.Request, template: str, *, status: int = 200, **values: Any) -> web.Response:
    text = (
        _environment()
        .get_template(template)
        .render(user=known_user(), form_token=form_token_of(request), path=request.path, **values)
    )
    headers = {"Content-Security-Policy": _POLICY}
    return web.Response(text=text, status=status, content_type="text/html", headers=headers)


@cache
def _environment() -> jinja2.Environment:
    own, page = jinja2.PackageLoader("emulator.annexes.service"), jinja2.PackageLoader("emulator.views.html.page")
    environment = jinja2.Environment(
        loader=jinja2.ChoiceLoader([own, page]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=shown,
    )
    environment.filters["moment"] = _moment
    environment.filters["duration"] = lambda seconds: format_duration(seconds * 1e9)
    environment.filters["lines"] = lambda text: escape(visible_lines(text))
    environment.filters["as_typed"] = escape
    environment.globals["style"] = Markup(page.get_source(environment, "page.css")[0] + _source("service.css"))
    environment.globals["tones"] = _ABOUT_STATE | {outcome.value: tone for outcome, tone in TONES.items()}
    environment.globals["Role"] = Role
    environment.globals["dash"] = NONE
    environment.globals["sample"] = _SAMPLE_RULES
    return environment


def _source(name: str) -> str:
    return resources.files("emulator.annexes.service").joinpath("templates", name).read_text(encoding="utf-8")


def _moment(when: datetime | None) -> str:
    return NONE if when is None else f"{when.astimezone(UTC):%Y-%m-%d %H:%M}"


PATH = "/back"
_BEGIN = re.compile(r"<body[^<>]*>\s*(<a class=\"skip\"[^<>]*>[^<>]*</a>)?")
_TARGET = re.compile(r"/(runs/\d+)?|/runs")
"""Reports are shown in a sandbox, as of another site: browsers send no session with what is opened from there. The link
therefore leads to a page of the service that has no content, and that page leads on."""


def with_way_back(page: str, *, to: str, name: str) -> str:
    """A page of results with a link to a page of the service above its content."""
    link = f'<a id="way-back" href="{PATH}?to={escape(to)}">← {escape(visible(name))}</a>'
    back = f'<div role="navigation" aria-label="Back" style="margin:.4rem 1rem">{link}</div>'
    return _BEGIN.sub(lambda begin: begin[0] + back, page, count=1)


async def lead_back(request: web.Request) -> web.Response:
    """The page that leads on; it says nothing, so everybody may have it."""
    to = request.query.get("to", "")
    if not _TARGET.fullmatch(to):
        raise Refusal("there is no such way back", status=404)
    text = (
        f'<!doctype html><title>charkha</title><meta http-equiv="refresh" content="0;url={to}"><a href="{to}">Back</a>'
    )
    headers = {"Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'"}
    return web.Response(text=text, content_type="text/html", headers=headers)
