"""The pages in a real browser: log in, start, look at it live, its report, a comparison, the trend."""

from collections.abc import Callable
from pathlib import Path

import pytest
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement

from charkha.service import Role
from tests.support.browser import DESKTOP, PHONE, Browser, chromium
from tests.support.command import wait_for
from tests.support.full import IS_FULL
from tests.support.service import LONG, QUICK, add_users, running

pytestmark = pytest.mark.skipif(not IS_FULL, reason="takes 10 to 20 s: CHARKHA_FULL=1")


def found(browser: Browser, by: str, what: str) -> WebElement:
    return wait_for(lambda: next(iter(browser.driver.find_elements(by, what)), None))


def click(browser: Browser, by: str, what: str) -> None:
    try:
        found(browser, by, what).click()
    except StaleElementReferenceException:  # the page renewed itself in between
        found(browser, by, what).click()


def until(browser: Browser, script: str) -> None:
    wait_for(lambda: browser.run(f"return {script}") or None)


def does_not_overflow(browser: Browser) -> bool:
    return browser.run("return document.documentElement.scrollWidth <= innerWidth")


def test_from_log_in_to_comparison(tmp_path: Path) -> None:
    tokens = add_users(tmp_path, ann=Role.OPERATOR)
    with running(tmp_path) as service, chromium() as browser:
        browser.show(*DESKTOP)
        client, driver = service.client(tokens["ann"]), browser.driver
        earlier = client.submit(dut="loopback", spec=QUICK, repeat=2)
        driver.get(service.url)
        found(browser, "name", "token").send_keys(tokens["ann"])
        click(browser, "xpath", "//button[.='Log in']")
        _start(browser, iterations=1000)
        _watch(browser, lambda: client.cancel_run(3))
        driver.get(f"{service.url}runs")
        for name, run in zip(("baseline", "other"), earlier, strict=True):
            click(browser, "css selector", f"input[name={name}][value='{run.id}']")
        click(browser, "xpath", "//button[.='Compare B with A']")
        until(browser, "document.title.includes('charkha compare')")
        until(browser, "document.querySelector('[data-chart] svg')")
        driver.get(f"{service.url}runs/1")
        click(browser, "link text", "Trend")
        until(browser, "document.querySelector('[data-chart] svg')")
        assert "2 complete runs" in browser.run("return document.querySelector('.sentence').textContent")
        for page in ("", "runs", "runs/1", "start?workload=suite:smoke&dut=loopback"):
            browser.open(service.url + page)
            browser.show(*PHONE)
            assert does_not_overflow(browser), page
            assert browser.complaints() == []
            assert all(url.startswith(service.url) for url in browser.requests())


def test_everything_is_done_with_the_keyboard(tmp_path: Path) -> None:
    tokens = add_users(tmp_path, ann=Role.OPERATOR)
    with running(tmp_path) as service, chromium() as browser:
        browser.show(*DESKTOP)
        client, driver = service.client(tokens["ann"]), browser.driver
        client.submit(dut="loopback", spec=QUICK)
        client.submit(dut="loopback", spec=LONG, name="long")
        driver.get(service.url)
        found(browser, "name", "token")
        press(browser, tokens["ann"], Keys.ENTER)
        until(browser, "document.title.startsWith('Devices')")
        wait_for(lambda: client.get_run(2).progress)
        for page in ("", "runs", "runs/1", "runs/2", "start?workload=suite:smoke&dut=loopback"):
            browser.open(service.url + page)
            press(browser, Keys.TAB)
            assert browser.run("return document.activeElement.className") == "skip"
            press(browser, Keys.ENTER, Keys.TAB)
            assert browser.run("return document.activeElement.closest('main') !== null"), page
            assert browser.run(UNREACHED) == [], page
        browser.open(service.url)
        browser.run("document.querySelector('summary').focus()")
        press(browser, Keys.ENTER)
        assert browser.run("return document.querySelector('details').open")
        press(browser, Keys.TAB, Keys.ESCAPE)
        assert browser.run("return document.activeElement.tagName") == "SUMMARY"
        assert not browser.run("return document.querySelector('details').open")
        seen = browser.run("return document.querySelector('.far').textContent")
        until(browser, f"document.querySelector('.far').textContent !== '{seen}'")
        assert browser.run("return document.activeElement.tagName") == "SUMMARY", "the page renewed itself around it"
        browser.open(f"{service.url}runs/2")
        browser.run("[...document.querySelectorAll('button')].find(one => one.textContent === 'Stop').focus()")
        press(browser, Keys.SPACE)
        wait_for(lambda: client.get_run(2).state.is_over or None)
        client.add_rules("strict", "rules: [{metric: retransmissions, at_most: 0}]")
        browser.open(f"{service.url}runs/1")
        browser.run("document.querySelector('summary').focus()")
        press(browser, Keys.SPACE, Keys.TAB, "ann", Keys.TAB, Keys.TAB, Keys.ENTER)
        until(browser, "document.querySelector('.answer')?.textContent.startsWith('PASS')")
        assert "strict" in browser.run("return document.body.textContent")


def press(browser: Browser, *keys: str) -> None:
    for one in keys:
        ActionChains(browser.driver).send_keys(one).perform()


# Controls that Tab does not reach, or that do not show that they have the focus.
UNREACHED = """
const all = [...document.querySelectorAll('a[href], button, input:not([type=hidden]), select, textarea, summary, pre')];
return all.filter(one => one.checkVisibility()).filter(one => {
  one.focus({focusVisible: true});
  const is = document.activeElement === one && one.tabIndex >= 0;
  return !is || getComputedStyle(one).outlineStyle === 'none';
}).map(one => one.outerHTML.slice(0, 80));
"""


def _start(browser: Browser, *, iterations: int) -> None:
    click(browser, "link text", "Start")
    browser.run(f"document.querySelector('[name=iterations]').value = {iterations}")
    click(browser, "xpath", "//button[.='Compose']")
    assert f"iterations: {iterations}" in found(browser, "name", "spec.1").get_attribute("value")
    click(browser, "id", "submit")


def _watch(browser: Browser, cancel: Callable[[], object]) -> None:
    """The run waits, plays, is seen live, is stopped, and has a report."""
    click(browser, "link text", "Live page")
    until(browser, "document.querySelector('[data-chart] svg')")
    cancel()
    until(browser, "document.documentElement.dataset.ended")
    assert "/live/" in browser.driver.current_url
    assert browser.run("return origin") == "null", "names of a run cannot act for its reader"
    assert not [one for one in browser.complaints() if "/live/" in one]
    browser.driver.get(browser.driver.current_url.partition("/live/")[0])
    click(browser, "link text", "Report")
    until(browser, "document.title.includes('transformer-8r')")
    assert "interrupted by the user" in found(browser, "css selector", ".alarm").text
