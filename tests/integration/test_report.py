"""Reports in a real browser: they draw, ask for nothing, fit a phone; the live page fills up while a run goes on."""

import json
import re
import signal
import socket
import urllib.error
import urllib.request
from itertools import pairwise
from pathlib import Path

import pytest

from emulator.experiment.play.live_address import LiveAddress
from emulator.experiment.play.live_report import live_page
from emulator.results.run_folder.reader import read_run
from emulator.results.run_folder.schema import RunTable
from emulator.results.run_folder.session import load_session, session_of
from emulator.results.run_folder.writer import RunWriter
from emulator.views.html.writing import write_report
from tests.data.make_run_v1 import FOLDER
from tests.support.browser import DESKTOP, PHONE, Browser
from tests.support.command import EXAMPLE, charkha, here, started, wait_for
from tests.support.runs import collective, columns, manifest, ranks, write_run
from tests.support.steps import run as steps_run
from tests.support.steps import step

HOSTILE = "<img src=x onerror=\"document.documentElement.dataset.hacked='yes'\">"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    """URL of the report of the golden run."""
    path = tmp_path_factory.mktemp("report") / "golden.html"
    return write_report(load_session(FOLDER), path).as_uri()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_report_draws_every_picture_and_asks_for_nothing(browser: Browser, report: str, scheme: str) -> None:
    browser.show(*DESKTOP, scheme=scheme)
    browser.open(report)
    assert browser.complaints() == []
    assert browser.requests() == {report}
    paths = "f => [f.id, f.querySelectorAll('.canvas svg path').length]"
    drawn = browser.run(f"return [...document.querySelectorAll('[data-chart]')].map({paths})")
    assert len(drawn) >= 7
    assert all(paths > 0 for _, paths in drawn), drawn


def test_a_collective_in_space_and_time_is_drawn_with_its_ideal(browser: Browser, tmp_path: Path) -> None:
    ideal = {"ideal_post_ns": 0, "ideal_arrival_ns": 40}
    transfers = [step(rank, (rank + 1) % 4, 100, 150 + 700 * (rank == 3), **ideal) for rank in range(4)]
    page = write_report(session_of(steps_run(tmp_path / "run", transfers))).as_uri()
    for size in (DESKTOP, PHONE):
        browser.show(*size)
        browser.open(page)
        assert browser.complaints() == []
        labels = browser.run("return [...document.querySelectorAll('#space-time svg text')].map(t => t.textContent)")
        assert {"rank 0", "rank 3", "ideal 0", "ideal 3", "late", "ideal payload"} <= set(labels)
        assert browser.run("return document.documentElement.scrollWidth") <= size[0]


def test_light_and_dark_follow_the_system_until_the_reader_chooses(browser: Browser, report: str) -> None:
    colour = "return getComputedStyle(document.body).backgroundColor"
    browser.show(*DESKTOP, scheme="light")
    browser.open(report)
    light = browser.run(colour)
    browser.show(*DESKTOP, scheme="dark")
    dark = browser.run(colour)
    assert sum(_levels(dark)) < 150 < 600 < sum(_levels(light))
    browser.run("document.getElementById('theme').click()")
    assert browser.run(colour) == light
    browser.run("localStorage.clear()")


def test_paper_is_light_whatever_the_screen_is(browser: Browser, report: str) -> None:
    browser.show(*DESKTOP, scheme="dark", medium="print")
    browser.open(report)
    assert _levels(browser.run("return getComputedStyle(document.body).backgroundColor"))[:3] == [255, 255, 255]
    assert sum(_levels(browser.run("return getComputedStyle(document.body).color"))[:3]) < 150
    browser.show(*DESKTOP)


def test_a_phone_shows_it_without_scrolling_sideways(browser: Browser, report: str) -> None:
    browser.show(*PHONE)
    browser.open(report)
    assert browser.run("return document.documentElement.scrollWidth") <= PHONE[0]
    widest = (
        "return Math.max(...[...document.querySelectorAll('.canvas svg')].map(s => s.getBoundingClientRect().right))"
    )
    assert browser.run(widest) <= PHONE[0]
    right = "return Math.max(...[...document.querySelectorAll('SELECTOR')].map(e => e.getBoundingClientRect().right))"
    assert browser.run(right.replace("SELECTOR", ".canvas .role-legend-label text")) <= PHONE[0], "legends end in dots"
    assert browser.run(right.replace("SELECTOR", "table.stacks td")) <= PHONE[0], "short tables become lists"


def test_it_is_read_by_those_who_cannot_see_it(browser: Browser, report: str) -> None:
    browser.show(*DESKTOP)
    browser.open(report)
    levels = browser.run("return [...document.querySelectorAll('h1, h2, h3')].map(h => Number(h.tagName[1]))")
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    assert browser.run("return [...document.querySelectorAll('[role=img]')].every(i => i.getAttribute('aria-label'))")
    assert browser.run("return [...document.querySelectorAll('table')].every(t => t.caption && t.querySelector('th'))")


def test_choosing_an_iteration_changes_every_picture_of_it(browser: Browser, report: str) -> None:
    browser.show(*DESKTOP)
    browser.open(report)
    drawn = "[...document.querySelectorAll('#communication-line .canvas svg [aria-label]')]"
    labels = f"return {drawn}.map(bar => bar.ariaLabel).join()"
    before = browser.run(labels)
    browser.run(
        "const s = document.querySelector('#rank-usage select'); s.selectedIndex = 1;"
        "s.dispatchEvent(new Event('change', {bubbles: true}))"
    )
    wait_for(lambda: True if browser.run(labels) != before else None)
    assert browser.run("return document.querySelector('#communication-line select').selectedIndex") == 1


def test_what_a_trace_says_is_never_run(browser: Browser, tmp_path: Path) -> None:
    samples = collective([0, 0], [10, 10], name=HOSTILE, group=HOSTILE, algorithm=HOSTILE)
    facts = manifest(
        command_line=("charkha", HOSTILE), topology={"name": HOSTILE}, dut={"name": HOSTILE, "vendor": HOSTILE}
    )
    fields = {name: getattr(facts, name) for name in ("command_line", "topology", "dut")}
    run = write_run(tmp_path / "run", samples, iterations={0: ranks((0, 10), (0, 10))}, **fields)
    browser.show(*DESKTOP)
    browser.open(write_report(session_of(run)).as_uri())
    moved = "new PointerEvent('pointermove', {bubbles: true})"
    browser.run(f"document.querySelectorAll('.canvas svg path').forEach(p => p.dispatchEvent({moved}))")
    assert HOSTILE[:9] in browser.run("return document.body.innerText")
    assert browser.run("return document.documentElement.dataset.hacked") is None
    assert browser.complaints() == []


def test_the_command_writes_the_page_and_gives_the_same_facts(tmp_path: Path) -> None:
    done = charkha("report", FOLDER, "--out", tmp_path / "page.html", cwd=tmp_path)
    assert (done.code, done.stdout) == (0, f"{tmp_path / 'page.html'}\n")
    assert (tmp_path / "page.html").stat().st_size < 1_500_000
    facts = json.loads(here("report", FOLDER, "--json", cwd=tmp_path).stdout)
    assert facts["classes"][0]["collective"] == "all_reduce"


@pytest.mark.parametrize("host", ["attacker.example", "localhost"])
def test_the_live_page_answers_to_its_own_name_only(tmp_path: Path, host: str) -> None:
    with live_page(LiveAddress(), tmp_path / "run") as url:
        request = urllib.request.Request(url, headers={"Host": f"{host}:1234"})
        if host == "localhost":
            with urllib.request.urlopen(request) as answer:
                assert b"The run has not started" in answer.read()
        else:
            with pytest.raises(urllib.error.HTTPError, match="403"):
                urllib.request.urlopen(request)


def test_a_port_in_use_is_refused_before_any_traffic(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = charkha("run", EXAMPLE, "--live", port, "--out", tmp_path / "run", cwd=tmp_path)
    assert (done.code, done.stdout) == (3, "")
    assert f"127.0.0.1:{port}" in done.error
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_the_live_page_fills_up_and_ends_as_the_report(browser: Browser, tmp_path: Path) -> None:
    browser.show(*DESKTOP)
    with started("run", EXAMPLE, "--iterations", 500, "--live", "--out", tmp_path / "run", cwd=tmp_path) as command:
        assert command.process.stderr
        url = re.search(r"http://127\.0\.0\.1:\d+/", command.process.stderr.readline())
        assert url
        browser.open(url[0])
        head = "document.getElementById('head').innerText"
        counted = f"return Number({head}.match(/(\\d+) (?:of \\d+ )?iterations?/)?.[1] ?? 0)"
        first = wait_for(lambda: browser.run(counted) or None)
        wait_for(lambda: True if browser.run(counted) > first else None)
        wait_for(
            lambda: browser.run("return document.querySelectorAll('#jct .canvas svg path').length > 3") or None, 30
        )
        command.process.send_signal(signal.SIGINT)
        wait_for(lambda: browser.run("return document.documentElement.dataset.ended") or None)
        command.finish()
    assert command.process.returncode == 130
    shown = browser.run("return document.getElementById('head').innerText")
    assert "interrupted by the user" in shown
    assert {url.partition("?")[0] for url in browser.requests()} == {url[0], f"{url[0]}state"}
    assert browser.complaints() == []
    written = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert browser.run("return document.querySelector('#key-figures .value').innerText") in written


def _levels(colour: str) -> list[float]:
    return [float(one) for one in re.findall(r"[\d.]+", colour)]


def test_rates_and_queues_zoom_together_and_what_is_shown_is_saved(browser: Browser, tmp_path: Path) -> None:
    bins, size = list(range(400)), 125_000
    with RunWriter(tmp_path / "run", manifest()) as writer:
        writer.add(RunTable.SAMPLES, columns(collective([0, 0], [9, 9])))
        writer.add_iteration(0, ranks((0, 90), (0, 80)))
        flow = {"src": 0, "dst": 1, "qpn": 17, "bin_ns": 10**6, "bytes": size, "retransmits": 0, "ecn_marks": 0}
        writer.add(RunTable.TIMELINE, flow | {"start_ns": [at * 10**6 for at in bins]})
        queue = {"device": "sw0", "interface": "p1", "counter": "qdisc_backlog_bytes"}
        writer.add(RunTable.COUNTERS, queue | {"time_ns": [at * 10**6 for at in bins], "value": bins})
    page = write_report(session_of(read_run(tmp_path / "run"))).as_uri()
    browser.show(*DESKTOP)
    browser.open(page)
    assert browser.complaints() == []
    browser.run(
        "URL.createObjectURL = blob => { blob.text().then(text => { window.saved = text; }); return 'data:,'; };"
        "HTMLAnchorElement.prototype.click = () => {};"
    )
    save = "document.querySelector('#queues-over-time [data-save]').click()"
    browser.run(save)
    whole = json.loads(wait_for(lambda: browser.run("return window.saved")))["traceEvents"]
    labels = "return document.querySelector('#{} .canvas svg').textContent"
    before = [browser.run(labels.format(name)) for name in ("rates-over-time", "queues-over-time")]
    browser.run(
        "const svg = document.querySelector('#rates-over-time .canvas svg');"
        "svg.scrollIntoView({behavior: 'instant', block: 'center'});"
        "const box = svg.getBoundingClientRect(), at = {clientX: box.x + box.width / 2, clientY: box.y + 100};"
        "const target = document.elementFromPoint(at.clientX, at.clientY);"
        "target.dispatchEvent(new WheelEvent('wheel', {deltaY: -800, ctrlKey: true, bubbles: true, ...at}))"
    )
    for name, text in zip(("rates-over-time", "queues-over-time"), before, strict=True):
        wait_for(lambda name=name, text=text: browser.run(labels.format(name)) != text or None)  # type: ignore[misc]
    browser.run("window.saved = null;" + save)
    part = json.loads(wait_for(lambda: browser.run("return window.saved")))["traceEvents"]
    depth = [[one["args"]["value"] for one in events if one["name"] == "depth sw0:p1"] for events in (whole, part)]
    assert depth[0] == [*bins, bins[-1]]
    assert depth[1] == bins[depth[1][0] : depth[1][-1] + 1]
    assert 10 < len(depth[1]) < 390
    assert {one["name"] for one in part} >= {"process_name", "port rank 1"}
