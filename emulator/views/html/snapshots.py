"""Pages of a run folder that is being written: a new one whenever the folder has changed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from emulator.errors import EmulatorError
from emulator.run_folder.layout import PARTIAL_MANIFEST
from emulator.run_folder.manifest import RUNNING
from emulator.run_folder.reader import Run, read_run
from emulator.views.html.facts import read_facts
from emulator.views.html.page.document import Page, Section, Text
from emulator.views.html.run_page import run_page

_WAITING = "The run has not begun; agents are starting."
_NOTHING = "The run ended before anything was recorded. See the terminal it was started in for the reason."


class Snapshots:
    """Pages of one run folder.

    Args:
        folder: of the run; it may not exist yet.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seen: object = None

    def next(self) -> Page | None:
        """The current page; None if nothing has changed since the last one, or the folder is being closed."""
        state = self._state()
        if state == self._seen:
            return None
        page = self._page()
        if page is not None:
            self._seen = state
        return page

    def last(self) -> Page:
        """The page of a run that is over."""
        try:
            return run_page(read_facts(read_run(self._folder)))
        except EmulatorError as error:
            exists = self._folder.exists()
            return _notice(self._folder, f"{_NOTHING} ({error})" if exists else _NOTHING, is_live=False)

    def _page(self) -> Page | None:
        if not self._folder.exists():
            return _notice(self._folder, _WAITING, is_live=True)
        try:
            return run_page(read_facts(_as_running(read_run(self._folder))))
        except EmulatorError:
            return None  # files are being renamed or not complete yet: the next attempt will find them

    def _state(self) -> object:
        try:
            return sorted((one.name, one.stat().st_size) for one in self._folder.iterdir())
        except OSError:
            return ()


def _as_running(run: Run) -> Run:
    """A folder that is not closed reads as aborted; here it is known that the run is still going."""
    if run.closed or not (run.folder / PARTIAL_MANIFEST).exists():
        return run
    return replace(run, manifest=replace(run.manifest, status=RUNNING, reason=None))


def _notice(folder: Path, text: str, *, is_live: bool) -> Page:
    section = Section("summary", "", [Text("notice", text, "note")])
    return Page(f"{folder.name} · charkha", folder.name, "", [], [], [section], is_live=is_live)
