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


def _open(browser: Browser, page: Path, width: int) -> None:
    browser.show(width, 900)
    browser.driver.get(page.as_uri())  # the pages of a service have their script elsewhere, and no pictures
    drawn = "!document.querySelector('[data-chart]') || document.documentElement.dataset.ready"
    wait_for(lambda: browser.run(f"return document.readyState === 'complete' && ({drawn})") or None)
