"""Every kind of page: no placeholder is left in its text, and in a real browser it fits a desktop and a phone."""

import asyncio
import html
import re
from pathlib import Path

import pytest

from emulator.views.html.page.document import Figures, KeyFigure, Page, PageSection, render
from tests.support.browser import Browser
from tests.support.command import wait_for
from tests.support.pages import KINDS, SERVICE, write_pages, write_service_pages

PAGES = (*KINDS, *SERVICE)
WIDTHS = (1400, 420)
NOT_TEXT = re.compile(r"<(script|style)\b.*?</\1>|<[^>]*>", re.DOTALL)
# A picture is complete when no text sticks out of it; a label that its axis has hidden is transparent.
OUTSIDE = """
return [...document.querySelectorAll('.canvas')].flatMap(canvas => {
  const box = canvas.getBoundingClientRect();
  return [...canvas.querySelectorAll('svg text')].filter(text => {
    const at = text.getBoundingClientRect();
    const shown = at.width && text.getAttribute('opacity') !== '0';
    return shown && (at.left < box.left - 1 || at.right > box.right + 1);
  }).map(text => text.textContent);
});
"""
CLIPPED = """
return [...document.querySelectorAll('.figure, .figure *')].filter(one => one.scrollWidth > one.clientWidth)
  .map(one => one.textContent.trim());
"""
# What a checker of accessibility would complain about, each as a text.
UNREACHABLE = """
const shown = one => one.checkVisibility({visibilityProperty: true}), found = [];
let level = 0;
for (const one of [...document.querySelectorAll('h1, h2, h3, h4')].filter(shown)) {
  if (one.tagName[1] > level + 1) found.push(`${one.tagName} after H${level}: ${one.textContent}`);
  level = Number(one.tagName[1]);
}
if (document.querySelectorAll('h1').length !== 1) found.push('not one h1');
const labels = one => [...(one.labels || [])].map(label => label.textContent).join(' ') + one.textContent;
for (const one of document.querySelectorAll('a[href], button, input:not([type=hidden]), select, textarea, summary')) {
  if (!(one.getAttribute('aria-label') || labels(one)).trim()) found.push(`no name: ${one.outerHTML}`);
}
const landmarks = document.querySelectorAll('nav, [role=navigation], section[aria-labelledby], [role=region]');
const names = [...landmarks].map(one =>
  one.getAttribute('aria-label') || document.getElementById(one.getAttribute('aria-labelledby'))?.textContent);
found.push(...names.filter((name, at) => !name || names.indexOf(name) !== at).map(name => `landmark twice: ${name}`));
for (const one of document.querySelectorAll('*')) {
  const scrolls = ['auto', 'scroll'].includes(getComputedStyle(one).overflowX) && one.scrollWidth > one.clientWidth;
  const keys = 'a[href], button, input, select, textarea, [tabindex]';
  if (scrolls && shown(one) && !one.matches(keys) && !one.querySelector(keys)) found.push(`no key: ${one.className}`);
}
const target = document.querySelector('body > a.skip')?.hash;
if (!target || !document.querySelector(target)) found.push('no skip link');
return found;
"""
# Text whose colour differs too little from what is behind it: WCAG 2.2, 1.4.3.
FAINT = """
const channels = text => (text.match(/[\\d.]+/g) || [0, 0, 0, 0]).map(Number);
const light = ([r, g, b]) => [r, g, b].map(c => c / 255).map(c => c <= .04045 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4)
  .reduce((sum, c, at) => sum + c * [.2126, .7152, .0722][at], 0);
const behind = one => {
  for (; one; one = one.parentElement) {
    const colour = channels(getComputedStyle(one).backgroundColor);
    if (colour.length < 4 || colour[3] === 1) return colour;
  }
  return [255, 255, 255];
};
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), found = new Set();
while (walker.nextNode()) {
  const text = walker.currentNode.textContent.trim(), one = walker.currentNode.parentElement;
  if (!text || one.closest('svg, script, style, .skip') || !one.checkVisibility({visibilityProperty: true})) continue;
  const [a, b] = [light(channels(getComputedStyle(one).color)), light(behind(one))].sort((x, y) => y - x);
  const large = parseFloat(getComputedStyle(one).fontSize) >= 24;
  if ((a + .05) / (b + .05) < (large ? 3 : 4.5)) found.add(`${text} ${getComputedStyle(one).color}`);
}
return [...found];
"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    return write_pages(folder) | asyncio.run(write_service_pages(folder))


@pytest.mark.parametrize("kind", PAGES)
def test_no_text_has_a_placeholder(pages: dict[str, Path], kind: str) -> None:
    text = html.unescape(NOT_TEXT.sub(" ", pages[kind].read_text(encoding="utf-8")))
    assert len(text.split()) > 5
    assert re.findall(r".{0,60}[{}].{0,60}", text) == []


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("kind", PAGES)
def test_a_page_fits_the_window(browser: Browser, pages: dict[str, Path], kind: str, width: int) -> None:
    _open(browser, pages[kind], width)
    assert browser.run("return document.documentElement.scrollWidth - innerWidth") <= 0
    assert browser.run(CLIPPED) == []
    assert browser.run(OUTSIDE) == []


@pytest.mark.parametrize("kind", PAGES)
def test_a_page_can_be_read_and_used_by_everybody(browser: Browser, pages: dict[str, Path], kind: str) -> None:
    for scheme in ("light", "dark"):
        _open(browser, pages[kind], 420, scheme=scheme)
        assert browser.run(FAINT) == []
    browser.run("document.querySelectorAll('details').forEach(one => one.open = true)")
    assert browser.run(UNREACHABLE) == []


@pytest.mark.parametrize("width", WIDTHS)
def test_a_long_figure_wraps_in_its_tile(browser: Browser, tmp_path: Path, width: int) -> None:
    figures = [KeyFigure(f"figure {n}", "123,456.789 Gbit/s in each direction", "x" * 90, n < 4) for n in range(8)]
    page = Page("t", "h", "s", [], [], [PageSection("top", "", [Figures("tiles", figures)])])
    (tmp_path / "tiles.html").write_text(render(page), encoding="utf-8")
    _open(browser, tmp_path / "tiles.html", width)
    assert browser.run("return document.documentElement.scrollWidth - innerWidth") <= 0
    assert browser.run(CLIPPED) == []


def test_a_desktop_shows_every_column_of_the_table_of_classes(browser: Browser, pages: dict[str, Path]) -> None:
    _open(browser, pages["run"], 1400)
    hidden = "const box = document.querySelector('#classes .scroll'); return box.scrollWidth - box.clientWidth"
    assert browser.run(hidden) == 0


def test_a_phone_shows_the_verdict_beside_the_class(browser: Browser, pages: dict[str, Path]) -> None:
    _open(browser, pages["comparison"], 420)
    right = "getBoundingClientRect().right"
    verdict = "document.querySelector('#verdicts-0 tbody td')"
    assert browser.run(f"return {verdict}.textContent") == "slower"
    assert browser.run(f"return {verdict}.{right} <= {verdict}.closest('.scroll').{right}")
    assert browser.run("return document.querySelector('.answer').textContent").startswith("SLOWER")


def _open(browser: Browser, page: Path, width: int, *, scheme: str = "light") -> None:
    browser.show(width, 900, scheme=scheme)
    browser.driver.get(page.as_uri())  # the pages of a service have their script elsewhere, and no pictures
    drawn = "!document.querySelector('[data-chart]') || document.documentElement.dataset.ready"
    wait_for(lambda: browser.run(f"return document.readyState === 'complete' && ({drawn})") or None)
