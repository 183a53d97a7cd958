"""A suite, a sweep or runs of one job that a folder holds, for `charkha report`, the service and the Python API."""

from __future__ import annotations

from pathlib import Path

from emulator.annexes.series.run_set import set_in
from emulator.annexes.series.suite_record import SuiteRecord
from emulator.annexes.series.suite_reports import report_page as suite_page
from emulator.annexes.series.sweep_page import sweep_page
from emulator.annexes.series.sweep_record import SweepRecord
from emulator.errors import ResultError
from emulator.experiment.play.outcome import StoredResult


def series_result(folder: Path) -> StoredResult | None:
    """The suite, the sweep or the runs in a folder; None: it is a run or a session, or has none of them.

    Raises:
        ResultError: it has several suites, as `suite run --profiles` leaves, or a damaged run.
        InputError: the file of its suite or sweep is damaged, or its runs do not repeat each other.
    """
    if (folder / SuiteRecord.FILE).is_file():
        played = SuiteRecord.read(folder)
        return StoredResult(lambda place: suite_page(played, folder, place), played.to_plain)
    if (folder / SweepRecord.FILE).is_file():
        swept = SweepRecord.read(folder)
        return StoredResult(lambda _: sweep_page(swept), lambda: swept.to_plain() | {"folder": str(folder)})
    if suites := sorted(path.parent for path in folder.glob(f"*/{SuiteRecord.FILE}")):
        listed = ", ".join(map(str, suites))
        raise ResultError(f"contains suites, not a result; give one of them: {listed}", path=folder)
    if (runs := set_in(folder)) is not None:
        return StoredResult(runs.page, lambda: runs.to_json(runs.judge(runs.rules)))
    return None
