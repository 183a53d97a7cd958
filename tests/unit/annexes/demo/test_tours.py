"""Tours are commands that parse; their pages and the picture are what lab.scripts.record_tours wrote of them."""

import re
from html import unescape

import pytest

from emulator.annexes.demo.command import shown
from emulator.annexes.demo.playing import Played
from emulator.annexes.demo.tours import DEMO, DEMO_LOOPBACK, TOURS, Tour, without_lab
from emulator.cli.main import _parser
from emulator.exit_codes import DONE, EXPECTATION_FAILED
from emulator.results.statistics import metric
from emulator.results.statistics.metrics import METRICS
from lab.scripts.gallery import EXAMPLES, EXHIBITS
from lab.scripts.record_tours import DOCS, PICTURE, examples_page, excerpt, outputs_of, page, picture, recorded_of
from tests.support.blocks import charkha_words

ALL = [*TOURS.values(), DEMO_LOOPBACK, *EXHIBITS, *EXAMPLES]
TUTORIALS = [tour for tour in TOURS.values() if tour is not DEMO]
CELL = 12.2
"""Width of a character in the picture."""


@pytest.mark.parametrize("tour", ALL, ids=lambda tour: f"{tour.name}-{tour.has_lab}")
def test_commands_parse(tour: Tour) -> None:
    lines = [step.command.splitlines()[0] for step in tour.steps]
    words = [words for line in lines for words in charkha_words(line)]
    assert words
    for one in words:
        _parser(one).parse_args(one)


@pytest.mark.parametrize("tour", TUTORIALS, ids=lambda tour: tour.name)
def test_a_tutorial_is_short_and_its_page_is_current(tour: Tour) -> None:
    assert 8 <= len(tour.steps) <= 12
    text = (DOCS / f"tutorial-{tour.name}.md").read_text(encoding="utf-8")
    assert text == page(tour, outputs_of(text)), f"python -m lab.scripts.record_tours {tour.name}"


def test_the_page_of_the_examples_is_current() -> None:
    text = (DOCS / "examples.md").read_text(encoding="utf-8")
    recorded = recorded_of(text)
    assert text == examples_page(recorded), "python -m lab.scripts.record_tours examples"
    assert all("Played 3 iterations" in one.output for one in recorded)


def test_the_picture_shows_the_commands_of_the_demo_and_needs_no_font() -> None:
    svg = PICTURE.read_text(encoding="utf-8")
    text = re.sub(r"&#160;", " ", " ".join(re.findall(r"<text[^>]*>(.*?)</text>", svg)))
    verdicts = [step for step in DEMO.steps if step.what]
    assert len(verdicts) == 2
    for step in verdicts:
        assert step.command in text, "python -m lab.scripts.record_tours demo"
    assert set(re.findall(r"https?://[^\"' )]*", svg)) <= {
        "http://www.w3.org/2000/svg",
        "https://www.textualize.io",
    }
    assert "font-face" not in svg


def lines_of(svg: str) -> tuple[int, list[str]]:
    """The columns of a pictured terminal, and its lines."""
    drawn = re.findall(r'<text class="demo-r\d+" x="([\d.]+)"[^>]*>(.*?)</text>', svg)
    (width,) = re.findall(r'<clipPath id="demo-clip-terminal">\s*<rect x="0" y="0" width="([\d.]+)"', svg)
    return round(float(width) / CELL), [
        unescape(text).replace("\xa0", " ").rstrip("\n") for x, text in drawn if x == "0"
    ]


def test_no_line_of_the_picture_is_cut() -> None:
    verdict = f"FAIL: {'a rule of many words ' * 12}end"
    done = [Played(step, 0, 1.0, verdict) for step in DEMO.steps]
    columns, lines = lines_of(picture(done))
    assert lines.count(verdict) == 3
    assert columns > len(verdict)


def test_only_the_demo_can_do_without_a_lab() -> None:
    assert without_lab(DEMO) is DEMO_LOOPBACK
    assert all(without_lab(tour) is tour for tour in TUTORIALS)
    assert not any("lab" in step.command for step in DEMO_LOOPBACK.steps)


def test_the_demo_judges_by_what_a_busy_tester_cannot_fail() -> None:
    for tour in (DEMO, DEMO_LOOPBACK):
        metrics = re.findall(r"metric: (\w+)", " ".join(step.command for step in tour.steps))
        assert len(metrics) == 3
        assert {METRICS[name].effect for name in metrics} == {metric.TesterEffect.NOTHING}
        assert [step.codes for step in tour.steps if step.what] == [(DONE,), (EXPECTATION_FAILED,)]


def test_a_step_is_shown_as_a_comment_and_a_command() -> None:
    assert shown("Why.", "charkha lab up x.yaml") == "\n# Why.\n$ charkha lab up x.yaml"


def test_an_excerpt_says_what_it_leaves_out() -> None:
    assert excerpt("a\nb  \nc\nd\n", 2) == "a\nb\n… 2 more lines\n"
    assert excerpt("a\nb\n", 2) == "a\nb\n"
    assert excerpt("long " * 99 + "end\n") == "long " * 99 + "end\n"
