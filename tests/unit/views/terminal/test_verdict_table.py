import io
from pathlib import Path

from rich.console import Console

from emulator.results.statistics.metrics import METRICS
from emulator.results.statistics.summary import summarise
from emulator.results.verdict.judge import judge
from emulator.results.verdict.rules import MetricBound, Rule, Rules, Selection
from emulator.views.terminal.verdict_table import metrics_table, render
from tests.support.runs import collective, ranks, write_run


def rule(metric: str, limit: float) -> Rule:
    return Rule(METRICS[metric], MetricBound("at most", limit, f"{limit:g}"), Selection())


def verdict(folder: Path, *rules: Rule):  # type: ignore[no-untyped-def]
    run = write_run(folder / "run", collective([0, 0], [100, 100]), iterations={0: ranks((0, 500), (0, 400))})
    return judge(summarise(run), Rules("mine", rules) if rules else None)


def shown(folder: Path, *rules: Rule) -> list[str]:
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(render(verdict(folder, *rules)))
    return [line.rstrip() for line in console.export_text().splitlines()]


def test_the_answer_is_the_first_line_and_failures_the_first_rows(tmp_path: Path) -> None:
    lines = shown(tmp_path, rule("incomplete", 0), rule("jct", 10))
    assert lines[0].startswith("FAIL: jct is 500 ns (at most 10)")
    rows = [line.split()[:2] for line in lines if line.startswith(("FAIL ", "PASS "))]
    assert rows == [["FAIL", "jct"], ["PASS", "incomplete"]]


def test_without_rules_there_is_no_table(tmp_path: Path) -> None:
    assert len(shown(tmp_path)) == 1


def test_every_metric_is_in_the_list() -> None:
    listed = [line.split()[0] for line in metrics_table().splitlines()]
    assert listed == list(METRICS)
