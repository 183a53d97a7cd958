"""Queues: a run at a time on each device, each a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
import shutil
import signal
import sqlite3
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from emulator import exit_codes
from emulator.annexes.service.configuration import RunPlace, ServiceFolder
from emulator.annexes.service.model import Refusal, Run, State
from emulator.annexes.service.store import Store
from emulator.device.lab.state import SERVICE
from emulator.results.run_folder.store import size_of
from emulator.results.verdict.judge import Outcome
from emulator.units import format_size

STOP_S = 30.0
"""A run that is stopped has this time to close its folder and write its report; traffic ends at once."""
LOOK_S = 0.1
"""Time between two looks at a lock, s."""
_LONGEST_WAIT_S = 3600.0
_PAUSE_S = 1.0
"""After what the service did not expect, s."""
_REASON_BYTES = 4096

logger = logging.getLogger(__name__)


class Changes:
    """Wakes those who wait for a change of any run, device or reservation."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Event] = set()

    def announce(self) -> None:
        """Something has changed."""
        for one in self._waiting:
            one.set()

    @contextlib.contextmanager
    def noticed(self) -> Iterator[asyncio.Event]:
        """An event that is set by every change; who waits for it clears it before looking."""
        event = asyncio.Event()
        self._waiting.add(event)
        try:
            yield event
        finally:
            self._waiting.discard(event)


class Queues:
    """The queues of all devices; an async context manager: leaving it interrupts what plays."""

    def __init__(self, store: Store, place: ServiceFolder, changes: Changes, *, quota_bytes: int) -> None:
        self._store, self._place, self._changes = store, place, changes
        self.quota = DiskQuota(store, place, quota_bytes)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._playing: dict[int, asyncio.subprocess.Process] = {}
        self._cancelled: set[int] = set()
        self._stopping: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Queues:
        interrupted = self._store.name_interrupted("the service ended while it was playing")
        if interrupted:
            logger.warning("runs that were playing when the service ended, now interrupted: %d", interrupted)
        for dut in self._store.duts():
            self.open(dut.name)
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def open(self, dut: str) -> None:
        """Begin to work on the queue of a device; idempotent."""
        if dut not in self._tasks:
            self._tasks[dut] = asyncio.create_task(self._work(dut))

    def cancel(self, run: Run) -> None:
        """Take a run off its queue, or stop it as Ctrl-C does."""
        if run.state is State.WAITING:
            self._store.end_run(run.id, State.CANCELLED, reason="cancelled before it began")
            self._changes.announce()
            return
        self._cancelled.add(run.id)
        if run.id in self._playing:
            self._stop_soon(self._playing[run.id])

    def _stop_soon(self, process: asyncio.subprocess.Process) -> None:
        task = asyncio.create_task(_stop(process))
        self._stopping.add(task)
        task.add_done_callback(self._stopping.discard)

    async def _work(self, dut: str) -> None:
        with self._changes.noticed() as changed:
            while True:
                changed.clear()
                run = self._store.next_run(dut, time.time())
                if run is None:
                    await self._wait(dut, changed)
                    continue
                try:
                    await self._play_next(dut, run)
                except Refusal as error:
                    self._store.end_run(run.id, State.FAILED, reason=str(error))
                    self._changes.announce()
                except Exception as error:  # root of the task: the next run of the queue has to play
                    logger.exception("run %d cannot be played", run.id)
                    with contextlib.suppress(sqlite3.Error):  # a full disk may be why, so it waits for its turn again
                        self._store.end_run(run.id, State.FAILED, reason=f"the service cannot play it: {error}")
                    self._changes.announce()
                    await asyncio.sleep(_PAUSE_S)

    async def _wait(self, dut: str, changed: asyncio.Event) -> None:
        boundary = self._store.next_boundary_s(dut, time.time())
        wait_s = _LONGEST_WAIT_S if boundary is None else boundary - time.time()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(wait_s, 0.01)):  # wait_for of Python 3.11 may lose a cancellation
                await changed.wait()

    async def _play_next(self, dut: str, run: Run) -> None:
        """Play a run as soon as the last one on the device is gone, even one that a killed service started."""
        descriptor = _open_lock(self._place.lock(dut))
        try:
            await _take(descriptor)
            await self.quota.check(run.user)
            if self._store.next_run(dut, time.time()) != run:  # cancelled, or the device was reserved meanwhile
                return
            self._store.start_run(run.id)
            self._changes.announce()
            process = await _start(self._place.run(run.id), descriptor, service=self._place.folder.resolve())
        finally:
            os.close(descriptor)  # the process has it too
        self._playing[run.id] = process
        if run.id in self._cancelled:  # while it was starting
            self._stop_soon(process)
        try:
            code = await process.wait()
        except asyncio.CancelledError:
            await _stop(process)
            self._store.end_run(run.id, State.INTERRUPTED, reason="the service was stopped while it was playing")
            raise
        finally:
            del self._playing[run.id]
        self._end(run, code)

    def _end(self, run: Run, code: int) -> None:
        is_cancelled = run.id in self._cancelled
        self._cancelled.discard(run.id)
        verdict = verdict_of(code) if _has_rules(self._place.run(run.id)) else None
        if verdict is not None or code == exit_codes.DONE:
            self._store.end_run(run.id, State.COMPLETE, verdict=verdict)
        elif is_cancelled:
            self._store.end_run(run.id, State.CANCELLED, reason="cancelled while it was playing")
        else:
            self._store.end_run(run.id, State.FAILED, reason=_reason(self._place.run(run.id), code))
        self._changes.announce()


def verdict_of(code: int) -> str | None:
    """The answer that an exit code stands for."""
    return next((one.value for one in Outcome if one.exit_code == code), None)


def _has_rules(place: RunPlace) -> bool:
    return "\n  expect:" in place.spec.read_text(encoding="utf-8")


def _reason(place: RunPlace, code: int) -> str:
    """The last line for the user on stderr."""
    with place.log.open("rb") as file:
        file.seek(max(0, place.log.stat().st_size - _REASON_BYTES))
        lines = file.read().decode(errors="replace").splitlines()
    said = [line.removeprefix("charkha: ") for line in lines if line.startswith("charkha: ")]
    if code < 0:
        return f"its process was ended by {signal.Signals(-code).name}"
    return said[-1] if said else f"its process ended with exit code {code}"


async def _start(place: RunPlace, lock: int, *, service: Path) -> asyncio.subprocess.Process:
    play = ["--log-level", "info", "run", "-f", str(place.spec), "--out", str(place.results), "--json"]
    with place.log.open("wb") as log, place.result.open("wb") as result:
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "emulator.annexes.service.run_process", str(lock), str(os.getpid()), *play),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=result,
            stderr=log,
            pass_fds=[lock],
            env={**os.environ, SERVICE: str(service)},
            start_new_session=True,  # Ctrl-C at the terminal is for the service, which then stops its runs
        )


async def _stop(process: asyncio.subprocess.Process) -> None:
    """End a run as Ctrl-C does; kill it if that takes too long."""
    for number in (signal.SIGINT, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(number)
            process.send_signal(signal.SIGCONT)  # one that was stopped could not answer
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STOP_S):
                await process.wait()
            return


def _open_lock(path: Path) -> int:
    path.parent.mkdir(exist_ok=True)
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


async def _take(lock: int) -> None:
    """Lock a file. Whoever has it was interrupted with the service that started it, and has `STOP_S` to end."""
    deadline = time.monotonic() + STOP_S
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                _kill_holder(lock)
            await asyncio.sleep(LOOK_S)


def _kill_holder(lock: int) -> None:
    """The holder wrote its id into the file and is alive, as the file is locked."""
    text = os.pread(lock, 20, 0)
    if text.isdigit():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(text), signal.SIGKILL)


LEAST_FREE_BYTES = 256 << 20
"""On the disk of the service's folder."""


@dataclass(frozen=True, slots=True)
class DiskQuota:
    """The limit of every user; `most_bytes` is checked before a run is queued, and again before it plays."""

    store: Store
    place: ServiceFolder
    most_bytes: int

    async def check(self, user: str) -> int:
        """Whether a user may write more, and how many bytes.

        Raises:
            Refusal: they use their quota, or the disk is nearly full.
        """
        folders = [self.place.run(number).folder for number in self.store.runs_of(user)]
        folders.append(self.place.uploads / user)
        used, free = await asyncio.to_thread(_measure, folders, self.place.folder)
        remedy = "an administrator frees space (charkha runs prune)"
        if used >= self.most_bytes:
            most = f"{format_size(self.most_bytes)}, the disk_quota of a user"
            raise Refusal(f"the files of {user} use {format_size(used)} of {most}: {remedy}", status=507)
        if free < LEAST_FREE_BYTES:
            problem = f"the service's disk has {free >> 20} MiB left, less than {LEAST_FREE_BYTES >> 20} MiB"
            raise Refusal(f"{problem}: {remedy}", status=507)
        return min(self.most_bytes - used, free - LEAST_FREE_BYTES)


def _measure(folders: Sequence[Path], disk: Path) -> tuple[int, int]:
    return sum(map(size_of, folders)), shutil.disk_usage(disk).free
