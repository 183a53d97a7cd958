from dataclasses import replace

import pytest

from emulator.results.comparison.groups import RunGroup
from emulator.results.run_folder.manifest import Scaling
from emulator.views.html.comparison_page import comparison_page
from emulator.views.html.page.document import Block, Chart, Facts, Page, Table, render
from tests.support.recorded import compared, recorded, slowed, slower_firmware


def block(page: Page, identifier: str) -> Block:
    (found,) = (one for section in page.sections for one in section.blocks if one.identifier == identifier)
    return found


def test_the_verdicts_of_the_page_are_those_of_the_comparison() -> None:
    page = comparison_page(slower_firmware())
    assert page.sentence == (
        "fw-b against fw-a (6 runs against 6 runs): all_reduce, 2 ranks, 8 KiB, ring is slower, ratio 1.210; "
        "5 classes, 5 slower."
    )
    table, chart = block(page, "verdicts-0"), block(page, "ratios-0")
    assert isinstance(table, Table)
    assert [row[:2] for row in table.rows] == [[str(one.key), "slower"] for one in slower_firmware().pairs[0].classes]
    assert isinstance(chart, Chart)
    effects = [one.effect for one in slower_firmware().pairs[0].classes]
    assert chart.picture.data["classes"]["ratio"] == [one.ratio for one in effects if one is not None]
    assert chart.picture.data["margin"] == {"low": [1 / 1.03], "high": [1.03]}


def test_what_happened_to_packets_stands_beside_the_verdicts() -> None:
    baseline, other = slower_firmware().groups
    groups = [
        RunGroup(group.name, [replace(run, counted={"retransmissions": count}) for run in group.runs])
        for group, count in ((baseline, 3), (other, 1204))
    ]
    page = comparison_page(compared(*groups))
    assert page.sentence.endswith("5 classes, 5 slower; retransmissions: 3 → 1,204 a run.")
    table = block(page, "causes-0")
    assert isinstance(table, Table)
    assert table.rows == [["retransmissions", "3", "1,204", "apart"]]


def test_every_run_is_drawn_beside_the_others() -> None:
    chart = block(comparison_page(slower_firmware()), "runs-side-by-side")
    assert isinstance(chart, Chart)
    data = chart.picture.data["runs"]
    mine = [
        row for row in zip(data["class"], data["group"], data["value_ns"], strict=True) if row[0] == "iteration (JCT)"
    ]
    assert [group for _, group, _ in mine] == ["fw-a"] * 6 + ["fw-b"] * 6
    jct = next(one for one in slower_firmware().pairs[0].classes if str(one.key) == "iteration (JCT)")
    assert [value for *_, value in mine] == [*jct.baseline.values_ns, *jct.other.values_ns]


def test_what_was_left_out_is_on_the_page() -> None:
    facts = block(comparison_page(slower_firmware()), "method-facts")
    assert isinstance(facts, Facts)
    assert ("Left out", "paced-20: aborted: lost") in facts.facts


def test_several_versions_have_a_trend() -> None:
    runs = recorded("paced")
    groups = [RunGroup(f"v{n}", [slowed(run, 1 + 0.1 * n) for run in runs[n:15:3]]) for n in range(3)]
    chart = block(comparison_page(compared(*groups)), "trend")
    assert isinstance(chart, Chart)
    points = chart.picture.data["points"]
    jct = [ratio for name, ratio in zip(points["class"], points["ratio"], strict=True) if name == "iteration (JCT)"]
    assert jct == pytest.approx([1.0, 1.1, 1.2], abs=0.03)
    assert chart.table is not None
    assert [column.name for column in chart.table.columns] == ["class", "v1", "v2"]


def test_a_forced_comparison_says_so_first() -> None:
    runs = recorded("paced")
    other = [replace(run, manifest=replace(run.manifest, scaling=Scaling(bytes=0.5))) for run in runs[6:9]]
    page = comparison_page(compared(RunGroup("a", runs[:3]), RunGroup("b", other)))
    assert page.warnings[0].startswith("Forced: these runs are not comparable")
    assert "scaling of sizes: 1.0 in a; 0.5 in b" in page.warnings[1]


def test_names_are_shown_as_text() -> None:
    hostile = replace(slower_firmware().groups[1], name="<script>x</script>")
    page = comparison_page(compared(slower_firmware().groups[0], hostile))
    assert "<script>x" not in render(page, with_library=False)
