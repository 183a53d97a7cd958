"""A run folder that is being written, as pages: a new one whenever there is something new."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from emulator.errors import EmulatorError
from emulator.run_folder.manifest import RUNNING
from emulator.run_folder.record import PARTIAL_MANIFEST, Run, read_run
from emulator.views.html.facts import read_facts
from emulator.views.html.page.document import Page, Section, Text
from emulator.views.html.run_page import run_page

_WAITING = "The run has not begun: agents are being started."
_NOTHING = "The run ended before anything was recorded; the terminal it was started in says why."


class Snapshots:
    """Pages of one run folder.

    Args:
        folder: of the run; need not exist yet.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seen: object = None

    def next(self) -> Page | None:
        """The page as of now; None where nothing came since the last one, or the folder is just being closed."""
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
            there = self._folder.exists()
            return _notice(self._folder, f"{_NOTHING} ({error})" if there else _NOTHING, is_live=False)

    def _page(self) -> Page | None:
        if not self._folder.exists():
            return _notice(self._folder, _WAITING, is_live=True)
        try:
            return run_page(read_facts(_as_running(read_run(self._folder))))
        except EmulatorError:
            return None  # its files are being renamed, or are not all there yet: the next look finds them

    def _state(self) -> object:
        try:
            return sorted((one.name, one.stat().st_size) for one in self._folder.iterdir())
        except OSError:
            return ()


def _as_running(run: Run) -> Run:
    """A folder that is not closed reads as one of a crash; here it is known that somebody writes it."""
    if run.closed or not (run.folder / PARTIAL_MANIFEST).exists():
        return run
    return replace(run, manifest=replace(run.manifest, status=RUNNING, reason=None))


def _notice(folder: Path, text: str, *, is_live: bool) -> Page:
    section = Section("summary", "", [Text("notice", text, "note")])
    return Page(f"{folder.name} · charkha", folder.name, "", [], [], [section], is_live=is_live)
