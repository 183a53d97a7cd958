from pathlib import Path

from emulator.annexes.telemetry.live_page import Snapshots
from emulator.results.run_folder.schema import RunTable
from emulator.results.run_folder.writer import RunWriter
from emulator.views.html.page.document import Page, Text, render
from tests.support.runs import collective, columns, manifest, ranks


def test_a_run_is_followed_from_before_its_start_to_its_end(tmp_path: Path) -> None:
    snapshots = Snapshots(tmp_path / "run")
    assert "has not started" in _notice(snapshots.next())
    assert snapshots.next() is None
    with RunWriter(tmp_path / "run", manifest()) as writer:
        page = snapshots.next()
        assert page
        assert "running" in page.labels
        for iteration in range(3):
            writer.add(RunTable.SAMPLES, columns(collective([0, 0], [10, 10 + iteration], iteration=iteration)))
            writer.add_iteration(iteration, ranks((0, 10), (0, 10 + iteration)))
            writer.flush()
            page = snapshots.next()
            assert page
            assert page.is_live
            assert f"{iteration + 1} iteration{'s' * (iteration > 0)}" in page.labels
            render(page, with_library=False, follows=True)
        assert snapshots.next() is None
    last = snapshots.last()
    assert not last.is_live
    assert "complete" in last.labels


def test_a_run_that_left_nothing_says_so(tmp_path: Path) -> None:
    assert "before anything was recorded" in _notice(Snapshots(tmp_path / "run").last())


def _notice(page: Page | None) -> str:
    assert page
    (section,) = page.sections
    (block,) = section.blocks
    assert isinstance(block, Text)
    return block.text
