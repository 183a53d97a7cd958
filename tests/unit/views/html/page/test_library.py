"""The JavaScript of pages, as it comes with the package."""

from __future__ import annotations

from importlib import resources

from emulator.views.html.page.library import packed_library
from tests.support.report import unpacked


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
