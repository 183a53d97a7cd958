"""What a folder holds: a run, a session, a suite or a sweep; its page, and the same facts for machines."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from emulator.errors import ResultError
from emulator.experiment.play.outcome import report_to_json
from emulator.experiment.series.suite.record import SuiteRecord
from emulator.experiment.series.sweep.record import SweepRecord
from emulator.results.run_folder.session import load_session

if TYPE_CHECKING:
    from emulator.views.html.page.document import Page


class StoredResult(NamedTuple):
    """A result; each half is made when it is asked for, which raises ResultError if a run is missing or damaged.

    Attributes:
        page: in a folder.
    """

    page: Callable[[Path], Page]
    to_json: Callable[[], dict[str, Any]]


def stored_result(folder: Path) -> StoredResult:
    """The result in a folder.

    Raises:
        ResultError: it has none, or a damaged one, or several, as `suite run --profiles` leaves.
        InputError: the file of its suite or sweep is damaged.
    """
    from emulator.experiment.series.suite.reports import report_page as suite_page
    from emulator.experiment.series.sweep.page import sweep_page
    from emulator.views.html.writing import report_page

    if (folder / SuiteRecord.FILE).is_file():
        played = SuiteRecord.read(folder)
        return StoredResult(lambda place: suite_page(played, folder, place), played.to_plain)
    if (folder / SweepRecord.FILE).is_file():
        swept = SweepRecord.read(folder)
        return StoredResult(lambda _: sweep_page(swept), lambda: swept.to_plain() | {"folder": str(folder)})
    if suites := sorted(path.parent for path in folder.glob(f"*/{SuiteRecord.FILE}")):
        listed = ", ".join(map(str, suites))
        raise ResultError(f"contains suites, not a result; give one of them: {listed}", path=folder)
    session = load_session(folder)
    return StoredResult(lambda place: report_page(session, place), lambda: report_to_json(session))
