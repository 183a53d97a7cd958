"""Queues with processes that stand for runs: one at a time, cancelled, failed, and left behind by a killed service."""

import asyncio
import contextlib
import fcntl
import os
import re
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from emulator.annexes.service import queues
from emulator.annexes.service.configuration import ServiceFolder
from emulator.annexes.service.model import Dut, Run, State
from emulator.annexes.service.queues import Changes, Queues
from emulator.annexes.service.serving import opened
from emulator.annexes.service.store import Store

NOTES_TIMES = "import time; print(time.monotonic_ns()); time.sleep(0.02); print(time.monotonic_ns())"
WAITS = "import signal; signal.signal(signal.SIGINT, lambda *_: exit(130)); print('ready', flush=True); signal.pause()"
IS_DEAF = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); print('ready', flush=True); signal.pause()"
FAILS = "import sys; print('charkha: there is no such trace', file=sys.stderr); exit(2)"


class Bench:
    """Queues of two devices, and runs that are small programs."""

    def __init__(self, store: Store, place: ServiceFolder, changes: Changes, *, quota_bytes: int) -> None:
        self.store, self.place, self._changes = store, place, changes
        self.queues = Queues(store, place, changes, quota_bytes=quota_bytes)

    def add(self, program: str, *, user: str = "ann", dut: str = "a") -> Run:
        run = self.store.add_run(dut=dut, user=user, name="program", series="5e71e5", profile=None)
        files = self.place.run(run.id)
        files.folder.mkdir(parents=True)
        files.spec.write_text(program)
        self._changes.announce()
        return run

    async def until(self, holds: Callable[[], object]) -> None:
        async with asyncio.timeout(60):
            while not holds():  # noqa: ASYNC110 (files have no events)
                await asyncio.sleep(0.002)

    async def ended(self, run: Run) -> Run:
        await self.until(lambda: self.store.run(run.id).state.is_over)
        return self.store.run(run.id)

    async def says(self, run: Run) -> None:
        path = self.place.run(run.id).result
        await self.until(lambda: path.exists() and path.read_text())

    def times_ns(self, run: Run) -> list[int]:
        return [int(line) for line in self.place.run(run.id).result.read_text().split()]


@contextlib.asynccontextmanager
async def bench(folder: Path, monkeypatch: pytest.MonkeyPatch, *, quota_bytes: int = 1 << 30) -> AsyncIterator[Bench]:
    async def start(files, lock, *, service):
        with files.log.open("wb") as log, files.result.open("wb") as result:
            program = (sys.executable, "-S", "-c", files.spec.read_text())
            return await asyncio.create_subprocess_exec(*program, stdout=result, stderr=log, pass_fds=[lock])

    monkeypatch.setattr(queues, "_start", start)
    monkeypatch.setattr(queues, "STOP_S", 0.2)
    monkeypatch.setattr(queues, "LOOK_S", 0.01)
    with opened(ServiceFolder(folder)) as store:
        for name in "ab":
            store.put_dut(Dut(name=name))
        yield Bench(store, ServiceFolder(folder), Changes(), quota_bytes=quota_bytes)


async def test_a_device_plays_one_run_at_a_time_whoever_asks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with bench(tmp_path, monkeypatch) as found, found.queues:
        elsewhere = found.add(WAITS, dut="b")
        runs = [found.add(NOTES_TIMES, user=user) for user in ("ann", "bob", "ann")]
        for run in runs:
            assert (await found.ended(run)).state is State.COMPLETE
        times = [moment for run in runs for moment in found.times_ns(run)]
        assert times == sorted(times)
        assert found.store.run(elsewhere.id).state is State.RUNNING


async def test_cancelled_failed_and_stopped_runs_say_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with bench(tmp_path, monkeypatch) as found:
        async with found.queues:
            first, deaf, never, fails, last = map(found.add, (WAITS, IS_DEAF, WAITS, FAILS, WAITS))
            for run in (first, deaf):
                await found.says(run)
                found.queues.cancel(found.store.run(run.id))
                assert (await found.ended(run)).state is State.CANCELLED
                if run is first:
                    found.queues.cancel(found.store.run(never.id))
            assert found.store.run(never.id).reason == "cancelled before it began"
            assert (await found.ended(fails)).reason == "there is no such trace"
            await found.says(last)
        assert (found.store.run(last.id).state, found.store.queue("a")) == (State.INTERRUPTED, [])


async def test_a_user_over_the_quota_plays_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    grows = "open('{}', 'wb').truncate(5000)"
    async with bench(tmp_path, monkeypatch, quota_bytes=5000) as found:
        runs = [found.add(grows, user=user) for user in ("ann", "ann", "bob")]
        for run in runs:
            files = found.place.run(run.id)
            files.spec.write_text(grows.format(files.folder / "results"))
        async with found.queues:
            states = [(await found.ended(run)).state for run in runs]
            assert states == [State.COMPLETE, State.FAILED, State.COMPLETE]
            reason = (
                r"the files of ann use 5\.\d\d KiB of 4\.88 KiB, the disk_quota of a user: an administrator frees space"
            )
            assert re.fullmatch(rf"{reason} \(charkha runs prune\)", found.store.run(runs[1].id).reason)


async def test_the_queue_waits_for_a_run_that_a_killed_service_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with bench(tmp_path, monkeypatch) as found:
        left, waits = found.add(IS_DEAF), found.add(NOTES_TIMES, user="bob")
        found.store.start_run(left.id)
        (tmp_path / "locks").mkdir()
        lock = os.open(tmp_path / "locks" / "a", os.O_RDWR | os.O_CREAT)
        fcntl.flock(lock, fcntl.LOCK_EX)
        command = [sys.executable, "-S", "-c", IS_DEAF]
        orphan = await asyncio.create_subprocess_exec(*command, pass_fds=[lock], stdout=subprocess.DEVNULL)
        os.write(lock, str(orphan.pid).encode())
        os.close(lock)
        began_s = time.monotonic()
        async with found.queues:
            assert found.store.run(left.id).state is State.INTERRUPTED
            assert (await found.ended(waits)).state is State.COMPLETE
        assert await orphan.wait() == -9, "it did not end in time, so it is killed"
        assert found.times_ns(waits)[0] > (began_s + queues.STOP_S) * 1e9


def test_a_process_whose_service_is_gone_plays_nothing(tmp_path: Path) -> None:
    program = (
        "import sys; from emulator.annexes.service.run_process import begin; begin(int(sys.argv[1]), 1); print('plays')"
    )
    with (tmp_path / "lock").open("w+") as lock:
        command = [sys.executable, "-P", "-c", program, str(lock.fileno())]
        ran = subprocess.run(command, pass_fds=[lock.fileno()], stdout=subprocess.PIPE, check=False, timeout=60)
        assert (ran.returncode, ran.stdout) == (1, b"")
        assert lock.read().isdigit()
