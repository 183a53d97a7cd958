"""The page about a trace in a real browser: drawn, complete in itself, readable at any width."""

from pathlib import Path

import pytest

from emulator.cli.main import main
from tests.support.browser import DESKTOP, PHONE, Browser
from tests.support.command import EXAMPLE

CHARTS = {"time-line", "communication-line", "matrix", "sizes", "path-line"}
_TOO_WIDE = """
return [...document.querySelectorAll('.graph .node')].filter(one => {
  const box = one.querySelector('rect').getBBox();
  return [...one.querySelectorAll('text')].some(text => text.getBBox().width > box.width);
}).map(one => one.textContent);
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("view") / "page.html"
    assert main(["trace", "view", str(EXAMPLE), "--out", str(path), "--depth", "5"]) == 0
    return path


@pytest.mark.parametrize(("size", "scheme"), [(DESKTOP, "light"), (PHONE, "dark")], ids=["desktop", "phone"])
def test_every_picture_is_drawn_and_nothing_is_loaded(
    browser: Browser, page: Path, size: tuple[int, int], scheme: str
) -> None:
    browser.show(*size, scheme=scheme)
    browser.open(page.as_uri())
    drawn = browser.run(
        "return [...document.querySelectorAll('[data-chart]:has(.canvas svg path)')].map(one => one.id)"
    )
    assert set(drawn) == CHARTS
    assert browser.run("return document.querySelectorAll('.graph .node').length") > 5
    assert browser.complaints() == []
    assert browser.requests() == {page.as_uri()}
    assert browser.run("return document.documentElement.scrollWidth") <= size[0]


def test_texts_in_the_graph_fit_their_boxes(browser: Browser, page: Path) -> None:
    browser.show(*DESKTOP)
    browser.open(page.as_uri())
    wide = browser.run(_TOO_WIDE)
    assert wide == []
