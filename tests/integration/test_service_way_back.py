"""From every page of the service a way leads back, also from reports, which are in a sandbox."""

import re
from pathlib import Path

import aiohttp
import pytest

from charkha.service import Role, State
from tests.integration.test_service_http import Asking
from tests.support.browser import DESKTOP, chromium
from tests.support.command import wait_for
from tests.support.full import IS_FULL
from tests.support.service import QUICK, add_users, in_this_process, running


async def test_only_pages_of_the_service_are_led_to(tmp_path: Path) -> None:
    add_users(tmp_path)
    async with in_this_process(tmp_path) as (_, url), aiohttp.ClientSession() as session:
        nobody = Asking(session, url, None)
        for to in ("/", "/runs", "/runs/7"):
            status, text, _ = await nobody("GET", f"/back?to={to}")
            assert (status, f'content="0;url={to}"' in text) == (200, True)
        for to in ("", "//evil.example", "https://evil.example", '/runs/7"><script>', "/runs/7/report"):
            status, text, _ = await nobody("GET", "/back", params={"to": to})
            assert (status, "refresh" in text) == (404, False), to


async def test_a_report_links_to_its_run_by_name(tmp_path: Path) -> None:
    (token,) = add_users(tmp_path, ann=Role.OPERATOR).values()
    async with in_this_process(tmp_path) as (routes, url), aiohttp.ClientSession() as session:
        ask = Asking(session, url, token)
        await ask("POST", "/api/v1/runs", json={"dut": "loopback", "spec": QUICK, "name": "A <b> & C"})
        routes.service.store.end_run(1, State.COMPLETE)
        results = routes.service.place.run(1).results
        results.mkdir(parents=True)
        (results / "report.html").write_text('<html><body data-x="y"><h1>Report</h1></body></html>')
        status, text, headers = await ask("GET", "/runs/1/report")
        assert (status, headers["Content-Security-Policy"]) == (200, "sandbox allow-scripts")
        link = re.search(r'<body data-x="y">.*?<a id="way-back" href="/back\?to=/runs/1">← (.*?)</a>', text)
        assert link[1] == "Run 1: A &lt;b&gt; &amp; C"


@pytest.mark.skipif(not IS_FULL, reason="takes 10 s: CHARKHA_FULL=1")
def test_in_a_browser_the_way_back_from_the_sandbox_keeps_the_session(tmp_path: Path) -> None:
    tokens = add_users(tmp_path, ann=Role.OPERATOR)
    with running(tmp_path) as service, chromium() as browser:
        browser.show(*DESKTOP)
        client, driver = service.client(tokens["ann"]), browser.driver
        (run,) = client.submit(dut="loopback", spec=QUICK)
        *_, last = client.follow_run(run.id)
        assert last.run is not None
        driver.get(service.url)
        driver.find_element("name", "token").send_keys(tokens["ann"])
        driver.find_element("xpath", "//button[.='Log in']").click()
        driver.get(f"{service.url}runs/{run.id}/report")
        driver.find_element("id", "way-back").click()
        wait_for(lambda: driver.current_url.endswith(f"/runs/{run.id}") or None)
        assert f"Run {run.id}" in driver.title
