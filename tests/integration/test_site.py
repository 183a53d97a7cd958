"""The site: no link leads nowhere, nothing comes from elsewhere, and every page has a place in the menu."""

import re
from pathlib import Path

import pytest

from lab.scripts.gallery import with_pages
from lab.scripts.site import build, lists_apart
from tests.support.browser import PHONE, Browser
from tests.support.command import ROOT, wait_for

_SCROLLS = "return [...document.querySelectorAll('pre > code')].filter(one => one.scrollWidth > one.clientWidth)"
_LOADED = re.compile(r"<(?:script|img|link|iframe)\b[^>]*?(?:src|href)=\"([^\"]+)\"[^>]*>")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site, without the gallery's reports."""
    pytest.importorskip(
        "material", reason="the site needs mkdocs-material: pip install -e '.[docs]'", exc_type=ImportError
    )
    folder = tmp_path_factory.mktemp("site")
    build(folder, None)  # strict: a link or an anchor that leads nowhere fails
    return folder


def test_every_page_is_there_and_loads_nothing_from_elsewhere(site: Path) -> None:
    pages = [page.stem for page in (ROOT / "docs").glob("*.md")]
    assert len(pages) > 50
    for page in [*(f"docs/{name}" for name in pages), "index", "gallery/index"]:
        text = (site / f"{page}.html").read_text(encoding="utf-8")
        loaded = [one[1] for one in _LOADED.finditer(text) if 'rel="canonical"' not in one[0]]
        assert loaded
        assert [one for one in loaded if re.match(r"(?:https?:)?//", one)] == []
        assert all("aria-label" in one for one in re.findall(r'<div[^>]*role="dialog"[^>]*>', text))


def test_the_keyboard_reaches_code_that_scrolls_on_a_phone(browser: Browser, site: Path) -> None:
    browser.show(*PHONE)
    browser.driver.get((site / "docs" / "tutorial-chakra.html").as_uri())
    assert len(browser.run(_SCROLLS)) > 5
    wait_for(lambda: browser.run(f"{_SCROLLS}.every(one => one.tabIndex === 0)") or None)


def test_styles_name_no_font_from_elsewhere(site: Path) -> None:
    for style in site.rglob("*.css"):
        assert not re.search(r"url\((?:\"|')?(?:https?:)?//", style.read_text(encoding="utf-8")), style


def test_an_example_shows_its_page_where_there_is_one(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "examples.md").read_text(encoding="utf-8")
    assert with_pages(text, tmp_path) == text
    for name in ("trace-dense.html", "trace-dense-light.png", "trace-dense-dark.png"):
        (tmp_path / name).touch()
    changed = with_pages(text, tmp_path)
    assert "two each. [Open its page](../gallery/trace-dense.html).\n" in changed
    assert "](../gallery/trace-dense-dark.png#only-dark)](../gallery/trace-dense.html)" in changed
    assert changed.count("../gallery/") == 4, "one link has both pictures, of which a theme shows one"


def test_a_list_begins_a_block_of_its_own() -> None:
    assert lists_apart("Text:\n- one\n- two\n") == "Text:\n\n- one\n- two\n"
    assert lists_apart("```\nText\n- no list\n```\n") == "```\nText\n- no list\n```\n"
    assert lists_apart("Text\n```\ncode\n```\nText\n") == "Text\n\n```\ncode\n```\n\nText\n"
