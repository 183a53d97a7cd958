"""What a folder holds: a run, a session, a suite or a sweep; its page, and the same facts for machines."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from emulator.experiment.play.outcome import report_to_json
from emulator.plugins import PluginKind, load
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
    from emulator.views.html.writing import report_page

    series: StoredResult | None = load(PluginKind.HOOKS, "series_result")(folder)
    if series is not None:
        return series
    session = load_session(folder)
    return StoredResult(lambda place: report_page(session, place), lambda: report_to_json(session))
