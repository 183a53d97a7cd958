from emulator.trace.analysis.compare import Aspect, Difference, TraceFinding
from emulator.views.terminal.trace_difference import render, sentence
from tests.support.terminal import shown


def found(*aspects: Aspect, ratio: tuple[float, float, float] | None = None) -> Difference:
    findings = {
        aspect: TraceFinding(3 if aspect in aspects else 0, 9, ["here"] if aspect in aspects else [])
        for aspect in Aspect
    }
    return Difference(findings, ratio, 0.0)


def test_the_answer_is_one_line() -> None:
    assert sentence(found()) == "the same"
    assert sentence(found(Aspect.NAMES)) == "the same but for names"
    assert (
        sentence(found(Aspect.SIZES, Aspect.NAMES, Aspect.DURATIONS)) == "the same but for sizes, names and durations"
    )
    assert sentence(found(Aspect.RANKS, Aspect.GROUPS)) == "different work: ranks and process groups"


def test_only_what_differs_is_listed() -> None:
    text = shown(render(found(Aspect.SIZES, ratio=(1.0, 1.0, 1.0))))
    assert "sizes" in text
    assert "roots" not in text
    assert "Durations" not in text


def test_durations_have_their_ratios() -> None:
    text = shown(render(found(Aspect.DURATIONS, ratio=(0.9, 1.0, 1.25))))
    assert "0.900 / 1.000 / 1.250 (least, median, most)" in text
