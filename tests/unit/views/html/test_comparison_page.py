from dataclasses import replace

from emulator.results.comparison.groups import RunGroup
from emulator.results.run_folder.manifest import Scaling
from emulator.views.html.comparison_page import comparison_page
from emulator.views.html.page.document import render
from tests.support.approved import approved, page_text
from tests.support.recorded import compared, recorded, slower_firmware


def test_a_comparison_says_what_was_approved() -> None:
    """What happened to packets stands beside the verdicts, and that it was forced before all."""
    runs = recorded("paced")
    other = [replace(run, manifest=replace(run.manifest, scaling=Scaling(bytes=0.5))) for run in runs[6:9]]
    groups = [
        RunGroup(name, [replace(run, counted={"retransmissions": count}) for run in found])
        for name, found, count in (("a", runs[:3], 3), ("b", other, 1204))
    ]
    approved("forced-comparison", page_text(comparison_page(compared(*groups))))
    approved("trend-of-two", page_text(comparison_page(slower_firmware(), is_trend=True)))


def test_names_are_shown_as_text() -> None:
    hostile = replace(slower_firmware().groups[1], name="<script>x</script>")
    page = comparison_page(compared(slower_firmware().groups[0], hostile))
    assert "<script>x" not in render(page, with_library=False)
