from dataclasses import replace
from statistics import median

import pytest

from emulator.results.comparison.groups import RunGroup
from emulator.results.run_folder.manifest import Scaling
from emulator.views.html.comparison_page import comparison_page
from emulator.views.html.page.document import Block, Chart, Page, Table, render
from tests.support.recorded import compared, recorded, slower_firmware


def block(page: Page, identifier: str) -> Block:
    (found,) = (one for section in page.sections for one in section.blocks if one.identifier == identifier)
    return found


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


def test_a_trend_has_every_run_at_the_time_it_began_and_the_margin_around_the_first_version() -> None:
    first, other = slower_firmware().groups
    chart = block(comparison_page(slower_firmware(), is_trend=True), "over-time")
    assert isinstance(chart, Chart)
    points, limits = chart.picture.data["points"], chart.picture.data["limits"]
    kind = points["kind"][0]
    rows = zip(points["kind"], points["at"], points["version"], points["value"], strict=True)
    jct = [one[1:] for one in rows if one[0] == kind]
    assert [at for at, *_ in jct] == sorted(1000 * run.began_s for group in (first, other) for run in group.runs)
    middle = median(value for _, version, value in jct if version == "fw-a")
    low, high = (limit for one, limit in zip(limits["kind"], limits["limit"], strict=True) if one == kind)
    assert (low, high) == pytest.approx((middle / 1.03, middle * 1.03))
    assert all(value > high for _, version, value in jct if version == "fw-b")
    assert not [one for one in comparison_page(slower_firmware()).sections if one.title == "Trend"]
