"""An option is what is declared beside its field: its texts, its range, and its wording."""

from typing import Annotated, Literal

import pytest
from msgspec import Meta

from emulator.option import Level, options_of, setting
from emulator.schema import Section, json_schema


class Inner(Section, frozen=True, kw_only=True):
    GROUP = "inner"
    wait_s: Annotated[Annotated[float, Meta(gt=0, le=9)] | None, setting("time to wait", unit="s", default=3.0)] = None
    is_quiet: Annotated[bool, setting("say nothing", flags="-q --quiet")] = False
    report: Annotated[bool, setting("write a report", flags="--no-report")] = True


class Outer(Section, frozen=True, kw_only=True):
    path: Annotated[str, setting("what to read", flags="FILE", group="")]
    count: Annotated[Annotated[int, Meta(ge=2, le=8)] | Literal["all"] | None, setting("how many", unset="all")] = None
    order: Annotated[Literal["up", "down"], setting("which way", level=Level.COMMON)] = "up"
    names: Annotated[tuple[str, ...], setting("who", flags="", separator=",")] = ()
    plain: int = 0
    inner: Inner = Inner()


FOUND = {one.path: one for one in options_of(Outer)}


def test_fields_of_sections_are_found_with_their_paths() -> None:
    assert list(FOUND) == ["path", "count", "order", "names", "inner.wait_s", "inner.is_quiet", "inner.report"]
    assert [one.flags for one in FOUND.values()] == [
        *[("FILE",), ("--count",), ("--order",), ()],
        *[("--wait",), ("-q", "--quiet"), ("--no-report",)],
    ]
    assert (FOUND["path"].is_positional, FOUND["path"].is_required, FOUND["count"].is_required) == (True, True, False)
    assert (FOUND["path"].group, FOUND["inner.wait_s"].group) == ("", "inner")


def test_the_wording_has_the_default_in_words_or_as_a_value() -> None:
    assert FOUND["count"].text == "how many (default: all)"
    assert FOUND["order"].text == "which way (default: up)"
    assert FOUND["inner.wait_s"].text == "time to wait (default: 3)"
    assert (FOUND["inner.is_quiet"].text, FOUND["inner.report"].text) == ("say nothing", "do not write a report")


@pytest.mark.parametrize(
    ("path", "text", "value"),
    [
        ("count", "8", 8),
        ("count", "all", "all"),
        ("order", "down", "down"),
        ("names", "a,b", ["a", "b"]),
        ("inner.wait_s", "2.5", 2.5),
        ("inner.report", "off", False),
        ("inner.report", "true", True),
    ],
)
def test_a_text_is_read_as_the_type_of_the_field_says(path: str, text: str, value: object) -> None:
    assert FOUND[path].read(text) == value


@pytest.mark.parametrize(
    ("path", "text", "problem"),
    [
        ("count", "1", "'1': give a whole number of at least 2, or all"),
        ("count", "9", "'9': give a whole number of at most 8, or all"),
        ("order", "upp", "there is no 'upp'; did you mean 'up'?"),
        ("inner.wait_s", "0", "'0': give a number of seconds above 0 to 9"),
        ("inner.is_quiet", "maybe", "there is no 'maybe'; choose from on, off"),
    ],
)
def test_a_text_outside_the_range_of_the_field_is_refused(path: str, text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem.replace("?", r"\?")):
        FOUND[path].read(text)


def test_the_schema_of_a_document_has_the_wording() -> None:
    assert json_schema(Outer)["$defs"]["Outer"]["properties"]["count"]["description"] == "how many (default: all)"
