"""Applies the changes of a profile to a lab, at their times during a run, and undoes them however the run ends.

The commands that undo a change are on disk before the change is made. If a run is killed, the next run in the lab
undoes its changes, or the removal of the lab does.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from emulator.device.lab.commands import attempt, finished, require_tools
from emulator.device.lab.links import restore
from emulator.device.lab.model import Design, Node
from emulator.device.lab.recipe import CommandBatch
from emulator.device.lab.state import Owner
from emulator.device.profile.changes import Change, nft
from emulator.device.profile.nftables import clean_text
from emulator.errors import HostError, PlanError
from emulator.units import NS_PER_S

_FILE = "profile.json"
_UNKNOWN_QDISC = "qdisc kind is unknown"


class AppliedProfile:
    """A context manager that checks all changes on entry, and undoes those in force on exit.

    Args:
        name: of the profile.
        changes: of its rules.
        design: of the lab.
        folder: where the lab keeps its state.
        before_cleaning: called when the rules of an earlier profile are gone, and their counters are still there.
    """

    def __init__(
        self,
        name: str,
        changes: Sequence[Change],
        *,
        design: Design,
        folder: Path,
        before_cleaning: Callable[[], None] = lambda: None,
    ) -> None:
        self._name, self._changes, self._design = name, changes, design
        self._path, self._before_cleaning = folder / _FILE, before_cleaning
        self._active: list[Change] = []

    def __enter__(self) -> AppliedProfile:
        """Undo what a killed run left, and check that every change can be made.

        Raises:
            HostError: the host lacks a tool or a kernel module.
            PlanError: a profile of another run is in force in this lab.
        """
        undo_leftovers(self._design, self._path.parent, before_cleaning=self._before_cleaning)
        if self._changes:
            require_tools(("nft", "tc", "ip"))
            self._save()
        try:
            for change in self._changes:
                for batch in change.check:
                    _run(change, batch)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def start(self, change: Change) -> None:
        """Make a change.

        Raises:
            HostError: it cannot be made.
        """
        self._active.append(change)
        self._save()
        for batch in change.start:
            _run(change, batch)

    def stop(self, change: Change) -> None:
        """Undo a change; its counter stays.

        Raises:
            HostError: it cannot be undone.
        """
        for batch in change.stop:
            _run(change, batch)
        if change.takes_links_down:
            restore([change.node])
        self._active.remove(change)
        self._save()

    def close(self) -> None:
        """Undo all changes in force; idempotent."""
        if not self._changes:
            return
        _undo([batch for change in reversed(self._active) for batch in change.stop])
        if any(change.takes_links_down for change in self._active):
            _restore_routes(self._design)
        _clean(_switches(self._design))
        self._active = []
        self._path.unlink(missing_ok=True)

    def _save(self) -> None:
        """Write the commands that undo the changes to disk."""
        stops = [[list(batch.command), list(batch.lines)] for change in self._active for batch in change.stop]
        me = Owner.me()
        document = {"profile": self._name, "owner": [me.pid, me.began], "stops": stops}
        part = self._path.with_suffix(".part")
        part.write_text(json.dumps(document), encoding="utf-8")
        part.replace(self._path)


def undo_leftovers(design: Design, folder: Path, *, before_cleaning: Callable[[], None] = lambda: None) -> bool:
    """Undo the profile of a killed run; whether there was one.

    Args:
        design: of the lab.
        folder: where the lab keeps its state.
        before_cleaning: called when the rules of the profile are gone, and their counters are still there.

    Raises:
        HostError: what it left cannot be read.
        PlanError: the run is still there.
    """
    path = folder / _FILE
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        owner, stops = Owner(*document["owner"]), document["stops"]
    except FileNotFoundError:
        return False
    except (ValueError, KeyError, TypeError) as error:
        advice = f"run `charkha lab down {design.lab_id}`, then bring the lab up again"
        raise HostError(f"{path} cannot be read: {advice}") from error
    if owner.is_alive and owner != Owner.me():
        problem = f"process {owner.pid} is applying profile {document['profile']} to lab {design.lab_id}"
        raise PlanError(f"{problem}: wait until it ends, or stop it")
    _undo([CommandBatch(tuple(command), lines) for command, lines in stops])
    _restore_routes(design)
    before_cleaning()
    _clean(_switches(design))
    path.unlink()
    return True


def _switches(design: Design) -> list[Node]:
    return [node for node in design.nodes if not node.is_host]


def _undo(batches: Sequence[CommandBatch]) -> None:
    """Run commands and ignore failures: a namespace that is gone has no changes left."""
    for batch in batches:
        attempt(batch)


def _restore_routes(design: Design) -> None:
    with contextlib.suppress(HostError):  # as above
        restore(_switches(design))


def _clean(nodes: Sequence[Node]) -> None:
    for node in nodes:
        attempt(nft(node, clean_text()))


def _run(change: Change, batch: CommandBatch) -> None:
    done = finished(batch)
    if done.returncode:
        reasons = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        raise HostError(_refusal(change, reasons[0] if reasons else "no reason given"))


def _refusal(change: Change, reason: str) -> str:
    what = f"rule {change.rule.name!r} cannot be applied at {change.node.name}"
    if _UNKNOWN_QDISC in reason:
        return (
            f"{what}: this kernel has no netem: load it with `modprobe sch_netem`, or use a kernel that has the module"
        )
    return f"{what} ({change.rule.action}): {reason}"


_ENDING_S = 30.0


@dataclass(slots=True)
class Timing:
    """When a change was in force, ns on the clock of the run; None if it has not started or ended."""

    change: Change
    started_ns: int | None = None
    ended_ns: int | None = None


class _Event(NamedTuple):
    at_s: float
    number: int
    is_start: bool
    timing: Timing


class Scenario:
    """Applies and undoes the changes of a profile at their times.

    Args:
        applied: makes and undoes the changes.
        changes: of the profile.
        clock_ns: the monotonic clock of the run, ns.
    """

    def __init__(
        self, applied: AppliedProfile, changes: Sequence[Change], *, clock_ns: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self._applied, self._clock_ns = applied, clock_ns
        self.timings = [Timing(change) for change in changes]
        self._has_ended = threading.Event()
        self._thread: threading.Thread | None = None
        self.begun_ns: int | None = None
        self.failure: HostError | None = None
        """Why a change could not be made or undone at its time."""

    def prepare(self) -> None:
        """Make the changes that are in force from before the run.

        Raises:
            HostError: a change cannot be made.
        """
        for timing in self.timings:
            if not timing.change.rule.is_timed:
                self._start(timing)

    def begin(self) -> None:
        """Start the schedule: the run begins now."""
        self.begun_ns = self._clock_ns()
        events = self._events()
        if events:
            self._thread = threading.Thread(target=self._follow, args=(events,), name="scenario", daemon=True)
            self._thread.start()

    def end(self) -> None:
        """End the schedule: no more changes are made; idempotent."""
        self._has_ended.set()
        if self._thread is not None:
            self._thread.join(_ENDING_S)

    def _events(self) -> list[_Event]:
        events = []
        for number, timing in enumerate(self.timings):
            rule = timing.change.rule
            if rule.start_s is not None:
                events.append(_Event(rule.start_s, number, True, timing))
            if rule.end_s is not None:
                events.append(_Event(rule.end_s, number, False, timing))
        return sorted(events, key=lambda event: (event.at_s, event.is_start, event.number))

    def _follow(self, events: Sequence[_Event]) -> None:
        try:
            for event in events:
                if self._has_ended.wait(max(0.0, self._left_s(event))):
                    return
                (self._start if event.is_start else self._stop)(event.timing)
        except HostError as error:
            self.failure = error

    def _left_s(self, event: _Event) -> float:
        assert self.begun_ns is not None  # set by begin()
        return event.at_s - (self._clock_ns() - self.begun_ns) / NS_PER_S

    def _start(self, timing: Timing) -> None:
        self._applied.start(timing.change)
        timing.started_ns = self._clock_ns()

    def _stop(self, timing: Timing) -> None:
        self._applied.stop(timing.change)
        timing.ended_ns = self._clock_ns()
