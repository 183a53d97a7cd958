"""Applies the changes of a schedule to a lab, at their times during a run, and undoes them however the run ends.

The commands that undo a change are on disk before the change is made. If a run is killed, the next run in the lab
undoes its changes, or the removal of the lab does.

Commands of events run on this host: without a shell, in a session of their own, for a limited time.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from emulator.device.lab.link_news import LinkNews
from emulator.device.lab.links import restore
from emulator.device.lab.model import Design, Node
from emulator.device.lab.state import Owner
from emulator.device.profile.changes import Change, nft
from emulator.device.profile.nftables import clean_text
from emulator.device.profile.profile import Command, Moment
from emulator.errors import HostError, PlanError
from emulator.host.files import write_json
from emulator.host.tools import CommandBatch, attempt, finished, reason, require_tools
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
        links: takes links up and down in place of commands, at the switches that it knows.
    """

    def __init__(
        self,
        name: str,
        changes: Sequence[Change],
        *,
        design: Design,
        folder: Path,
        before_cleaning: Callable[[], None] = lambda: None,
        links: LinkNews | None = None,
    ) -> None:
        self._name, self._changes, self._design = name, changes, design
        self._links = links or LinkNews([])
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

    def start(self, change: Change) -> int | None:
        """Make a change; returns when the kernel was asked to, ns on the clock of the run, if that is known.

        Raises:
            HostError: it cannot be made.
        """
        self._active.append(change)
        self._save()
        return self._carry_out(change, change.start, is_up=False)

    def stop(self, change: Change) -> int | None:
        """Undo a change; its counter stays. Returns the same as `start`.

        Raises:
            HostError: it cannot be undone.
        """
        asked_ns = self._carry_out(change, change.stop, is_up=True)
        if change.takes_links_down:
            restore([change.node])
        self._active.remove(change)
        self._save()
        return asked_ns

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

    def _carry_out(self, change: Change, batches: Sequence[CommandBatch], *, is_up: bool) -> int | None:
        if change.takes_links_down:
            asked_ns = self._links.set(change.node.name, [port.device for port in change.ports], is_up=is_up)
            if asked_ns is not None:
                return asked_ns
        for batch in batches:
            _run(change, batch)
        return None

    def _save(self) -> None:
        """Write the commands that undo the changes to disk."""
        stops = [[list(batch.command), list(batch.lines)] for change in self._active for batch in change.stop]
        me = Owner.me()
        write_json(self._path, {"profile": self._name, "owner": [me.pid, me.began], "stops": stops})


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
        raise HostError(_refusal(change, reason(done.stderr)))


def _refusal(change: Change, reason: str) -> str:
    what = f"rule {change.rule.name!r} cannot be applied at {change.node.name}"
    if _UNKNOWN_QDISC in reason:
        return (
            f"{what}: this kernel has no netem: load it with `modprobe sch_netem`, or use a kernel that has the module"
        )
    return f"{what} ({change.rule.action}): {reason}"


_ENDING_S = 30.0


class Made(NamedTuple):
    """When a change was made, or undone: ns on the clock of the run.

    Attributes:
        asked_ns: the kernel was asked to, or the commands were called.
        done_ns: it had, or they had returned.
        planned_ns: None: before the run.
    """

    asked_ns: int
    done_ns: int
    planned_ns: int | None = None


@dataclass(slots=True)
class Timing:
    """When a change was in force, or a command ran; None: it has not started, or not ended."""

    change: Change
    start: Made | None = None
    end: Made | None = None
    exit_code: int | None = None

    @property
    def is_in_force(self) -> bool:
        """Whether it has started and not ended."""
        return self.start is not None and self.end is None

    @property
    def started_ns(self) -> int | None:
        """When it was in force, ns on the clock of the run."""
        return None if self.start is None else self.start.done_ns

    @property
    def ended_ns(self) -> int | None:
        """When it was not any more, ns on the clock of the run."""
        return None if self.end is None else self.end.done_ns


class _Step(NamedTuple):
    moment: Moment
    number: int
    is_start: bool
    timing: Timing


class Scenario:
    """Applies and undoes the changes of a schedule at their times.

    Args:
        applied: makes and undoes the changes; None: there are only commands.
        changes: of the schedule.
        clock_ns: the monotonic clock of the run, ns.
    """

    def __init__(
        self,
        applied: AppliedProfile | None,
        changes: Sequence[Change],
        *,
        clock_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._applied, self._clock_ns = applied, clock_ns
        self.timings = [Timing(change) for change in changes]
        self._steps = list(_steps(self.timings))
        self._begun: dict[int | None, int] = {}  # iteration → when it began; None: the first one
        self._news, self._has_ended = threading.Condition(), False
        self._thread: threading.Thread | None = None
        self._waiting: list[threading.Thread] = []  # for commands
        self.failure: HostError | None = None
        """Why a change could not be made or undone at its time."""

    @property
    def begun_ns(self) -> int | None:
        """When the first iteration began; None: none has."""
        return self._begun.get(None)

    def prepare(self) -> None:
        """Make the changes that are in force from before the run.

        Raises:
            HostError: a change cannot be made.
        """
        for timing in self.timings:
            if not timing.change.rule.is_timed:
                self._start(timing, None)

    def begin(self, iteration: int | None) -> None:
        """An iteration begins now; with the first one, of whatever job, the schedule does: see DutCounters."""
        with self._news:
            now_ns = self._clock_ns()
            is_first = not self._begun
            self._begun.setdefault(None, now_ns)
            self._begun.setdefault(iteration, now_ns)
            self._news.notify()
        if is_first and self._steps:
            self._thread = threading.Thread(target=self._follow, name="scenario", daemon=True)
            self._thread.start()

    def end(self) -> None:
        """End the schedule: no more changes are made, and commands that run have ended or are killed; idempotent."""
        with self._news:
            self._has_ended = True
            self._news.notify()
        if self._thread is not None:
            self._thread.join(_ENDING_S)
        for one in self._waiting:
            one.join()

    def planned_ns(self, moment: Moment | None) -> int | None:
        """When a moment is, ns on the clock of the run; None: its iteration has not begun."""
        begun_ns = None if moment is None else self._begun.get(moment.iteration)
        return None if moment is None or begun_ns is None else begun_ns + round(moment.after_s * NS_PER_S)

    def _due_ns(self, step: _Step) -> int | None:
        """When to make it: a change that began late ends as much later, so that it lasts as long as planned."""
        at_ns, start = self.planned_ns(step.moment), step.timing.start
        if at_ns is None or step.is_start or start is None or start.planned_ns is None:
            return at_ns
        return at_ns + max(0, start.done_ns - start.planned_ns)

    def _follow(self) -> None:
        try:
            while (step := self._next()) is not None:
                (self._start if step.is_start else self._stop)(step.timing, self.planned_ns(step.moment))
        except HostError as error:
            self.failure = error

    def _next(self) -> _Step | None:
        """Wait for the time of the next step; None: there is none, or the schedule has ended."""
        with self._news:
            while self._steps and not self._has_ended:
                known = [
                    (at_ns, one.is_start, one.number, one)
                    for one in self._steps
                    if (at_ns := self._due_ns(one)) is not None
                ]
                if not known:
                    self._news.wait()
                    continue
                at_ns, *_, step = min(known)
                if (left_s := (at_ns - self._clock_ns()) / NS_PER_S) > 0:
                    self._news.wait(left_s)
                    continue
                self._steps.remove(step)
                return step
        return None

    def _start(self, timing: Timing, planned_ns: int | None) -> None:
        if isinstance(timing.change.rule.action, Command):
            self._run(timing, timing.change.rule.action, planned_ns)
            return
        assert self._applied is not None
        for other in self.timings:  # only of moments that nobody could compare before the run
            if other.is_in_force and timing.change.replaces(other.change):
                self._stop(other, planned_ns)
        called_ns = self._clock_ns()
        asked_ns = self._applied.start(timing.change)
        timing.start = Made(called_ns if asked_ns is None else asked_ns, self._clock_ns(), planned_ns)

    def _run(self, timing: Timing, command: Command, planned_ns: int | None) -> None:
        """Start a command, and wait for its end beside what follows."""
        called_ns = self._clock_ns()
        process = _start(command)
        timing.start = Made(called_ns, self._clock_ns(), planned_ns)

        def finish() -> None:
            timing.exit_code = _wait(process, command.limit_s)
            ended_ns = self._clock_ns()
            timing.end = Made(ended_ns, ended_ns)

        thread = threading.Thread(target=finish, name="command of an event", daemon=True)
        self._waiting.append(thread)
        thread.start()

    def _stop(self, timing: Timing, planned_ns: int | None) -> None:
        if timing.is_in_force:
            assert self._applied is not None
            called_ns = self._clock_ns()
            asked_ns = self._applied.stop(timing.change)
            timing.end = Made(called_ns if asked_ns is None else asked_ns, self._clock_ns(), planned_ns)


def _steps(timings: Sequence[Timing]) -> Iterator[_Step]:
    for number, timing in enumerate(timings):
        rule = timing.change.rule
        for is_start, moment in ((True, rule.start), (False, rule.end)):
            if moment is not None:
                yield _Step(moment, number, is_start, timing)


def _start(command: Command) -> subprocess.Popen[bytes]:
    """Start a command. What it writes goes to stderr, for stdout has the result of the run; it reads nothing.

    Raises:
        HostError: it cannot be started.
    """
    sys.stderr.flush()
    try:
        return subprocess.Popen(
            command.words,
            stdin=subprocess.DEVNULL,
            stdout=_stderr(),
            start_new_session=True,  # Ctrl-C ends the run, and not a change of a device half-way
        )
    except (OSError, ValueError) as error:
        raise HostError(f"{command} cannot be started: {getattr(error, 'strerror', None) or error}") from error


def _wait(process: subprocess.Popen[bytes], limit_s: float) -> int:
    """Wait for a command, and kill it with all that it started in its session if it takes longer than the limit.

    Returns:
        Its exit code as a shell says it: 128 + number of the signal that ended it.
    """
    try:
        code = process.wait(limit_s)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        code = process.wait()
    return code if code >= 0 else 128 - code


def _stderr() -> int:
    try:
        return sys.stderr.fileno()
    except (OSError, ValueError, AttributeError):  # there is none, or it is not a file
        return subprocess.DEVNULL
