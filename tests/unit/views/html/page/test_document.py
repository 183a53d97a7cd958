import json
import re
from importlib import resources

import pytest

from emulator.views.columns.columns import Header
from emulator.views.html.page.document import (
    Bar,
    BarPart,
    Chart,
    Facts,
    Figures,
    KeyFigure,
    Page,
    PageSection,
    Table,
    Text,
    packed_library,
    render,
)
from emulator.views.html.page.pictures import Picture
from tests.support.report import unpacked

EVIL = "<script>alert('x')</script>\"'&</title>"


@pytest.fixture
def page() -> Page:
    table = Table("evil-table", EVIL, [Header(EVIL, is_number=False), Header("n")], [[EVIL, "1"]], about=EVIL)
    curve = {"class": [EVIL, EVIL], "time_ns": [10, 20], "share": [0.5, 1.0]}
    picture = Picture("cct_cdf", {"curve": curve}, choice="class", choices=[(EVIL, EVIL)])
    blocks = [
        Figures("kpis", [KeyFigure(EVIL, EVIL, EVIL)]),
        Bar("where", EVIL, EVIL, [BarPart(EVIL, EVIL, 0.5, "compute")]),
        Facts("facts", EVIL, [(EVIL, EVIL)], EVIL),
        Text("text", EVIL),
        table,
        Chart("cdf", EVIL, EVIL, EVIL, picture, table, choice_title=EVIL),
    ]
    return Page(EVIL, EVIL, EVIL, [EVIL], [EVIL], [PageSection("all", EVIL, blocks, EVIL)], EVIL)


def test_what_a_trace_says_is_text_wherever_it_stands(page: Page) -> None:
    html = render(page, with_library=False)
    assert "<script>alert" not in html
    assert html.count("alert(") > 20
    assert len(re.findall("<script", html)) == len(re.findall("</script>", html)) == 1


def test_the_data_of_a_picture_come_back_as_they_were(page: Page) -> None:
    html = render(page, with_library=False)
    found = re.search(r'<script id="pictures" type="text/plain">(.*?)</script>', html)
    assert found
    document = json.loads(unpacked(found[1]))
    assert document["cdf"]["data"]["curve"] == {"class": [EVIL, EVIL], "time_ns": [10, 20], "share": [0.5, 1.0]}
    assert document["cdf"]["choice"] == "class"


def test_a_page_forbids_itself_to_load_anything(page: Page) -> None:
    policy = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:"
    assert f"{policy}; connect-src 'none'" in render(page, with_library=False)
    assert "connect-src 'self'" in render(page, with_library=False, follows=True)


def test_what_cannot_be_seen_is_shown() -> None:
    page = Page("t", "a\x1b[2Jb\u202ec", "", [], [], [])
    assert r"a\x1b[2Jb\u202ec" in render(page, with_library=False)


def test_the_library_stands_inside_the_page_and_is_the_same_each_time(page: Page) -> None:
    html = render(page)
    assert packed_library() in html
    assert render(page) == html
    assert len(html) < 600_000


def test_the_library_is_a_script_that_offers_vega_embed() -> None:
    script = unpacked(packed_library())
    assert "window.vegaEmbed" in script


def test_the_library_fits_into_an_attribute_of_a_page() -> None:
    assert packed_library().isascii()
    assert not set(packed_library()) & set("<>&\"'")


def test_the_licences_of_what_the_library_contains_come_with_it() -> None:
    licences = (resources.files("emulator.views.html.page") / "vega" / "licences.txt").read_text()
    for name in ("vega", "vega-lite", "vega-embed", "d3-array", "topojson-client", "fast-json-patch"):
        assert f"{name} (" in licences or f"{name}, " in licences
