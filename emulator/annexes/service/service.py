"""What each operation does: a method per operation, with its name. Routes have checked the role of the user."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from emulator.annexes.service import history, model
from emulator.annexes.service.catalogue import Catalogue, parse_rules, series_of, workload_of
from emulator.annexes.service.configuration import ServiceFolder
from emulator.annexes.service.model import Refusal, Role, Run, State, User
from emulator.annexes.service.queues import Changes, Queues
from emulator.annexes.service.store import Store
from emulator.experiment.play.outcome import stored_result
from emulator.experiment.spec.document import to_yaml
from emulator.experiment.spec.spec import Experiment
from emulator.results.comparison.verdicts import GroupComparison
from emulator.results.verdict.rules import Rules
from emulator.views.as_json import comparison_to_json, verdict_to_json
from emulator.views.html.facts import PageFacts
from emulator.visible import visible

_LONGEST_RESERVATION_S = 31 * 24 * 3600
_MOST_IN_TREND = 200
WriteFiles = Callable[[Path, int], Awaitable[None]]
MOST_WAITING = 1000
"""Runs of one user that wait or play."""
_LOOK_S = 0.3
"""Time between two looks at the log of a run that somebody follows, s."""


@dataclass(frozen=True, slots=True)
class ReadSpec:
    """A run spec as it would be played; `text`: the same as YAML."""

    experiment: Experiment
    text: str


def _read(catalogue: Catalogue, spec: str, dut: model.Dut, others: Sequence[model.Dut]) -> ReadSpec:
    experiment = catalogue.read(spec, dut, others=others)
    return ReadSpec(experiment, to_yaml(experiment))


class Service:
    """The operations.

    Args:
        store: its state.
        place: its folder.
        catalogue: stored files.
        queues: play the runs.
        changes: tells who waits.
    """

    def __init__(
        self, store: Store, place: ServiceFolder, catalogue: Catalogue, queues: Queues, changes: Changes
    ) -> None:
        self.store, self.place, self.changes = store, place, changes
        self._catalogue, self._queues = catalogue, queues
        self._progress = history.ProgressReader()
        self._uploading: set[str] = set()

    async def who(self, user: User, asked: model.Nothing) -> User:
        """The user."""
        return user

    async def list_users(self, user: User, asked: model.Nothing) -> list[User]:
        """All users."""
        return self.store.users()

    async def add_user(self, user: User, asked: User) -> model.Token:
        """Add a user, or replace role and token of one."""
        token = self.store.put_user(asked.name, asked.role)
        return model.Token(name=asked.name, role=asked.role, token=token)

    async def remove_user(self, user: User, asked: model.UserName) -> model.Nothing:
        """Remove a user; their runs stay."""
        if asked.name == user.name:
            raise Refusal("you cannot remove yourself: another administrator can do it", status=409)
        self.store.remove_user(asked.name)
        return model.Nothing()

    async def list_duts(self, user: User, asked: model.Nothing) -> list[model.Dut]:
        """All devices."""
        return self.store.duts()

    async def add_dut(self, user: User, asked: model.Dut) -> model.Dut:
        """Add or change a device."""
        self._catalogue.check_dut(asked, self.store.duts())
        self.store.put_dut(asked)
        self._queues.open(asked.name)
        return asked

    async def list_stored(self, user: User, asked: model.Nothing) -> model.Stored:
        """Stored files."""
        return await asyncio.to_thread(self._catalogue.stored)

    async def add_trace(self, user: User, asked: model.Upload, write: WriteFiles) -> model.StoredFile:
        """Store a trace of the user's own.

        Args:
            user: who has it then.
            asked: its name.
            write: writes its files, as they come, into a folder, up to so many bytes.

        Raises:
            Refusal: as for `queue`, another one is coming, they have one of that name, or the files are no trace.
        """
        if user.name in self._uploading:
            raise Refusal(f"{user.name} is uploading another trace: wait until it is there", status=429)
        self._uploading.add(user.name)
        try:
            most_bytes = await self._queues.quota.check(user.name)
            with self._catalogue.scratch() as folder:
                await write(folder, most_bytes)
                return await asyncio.to_thread(self._catalogue.add_trace, user.name, asked.name, folder)
        finally:
            self._uploading.discard(user.name)

    async def add_rules(self, user: User, asked: model.Rules) -> model.StoredFile:
        """Store rules of the user's own.

        Raises:
            InputError: as for `queue`, they have some of that name, or the text is no rules file.
        """
        await self._queues.quota.check(user.name)
        return await asyncio.to_thread(self._catalogue.add_rules, user.name, asked.name, asked.text)

    async def compose(self, user: User, asked: model.Compose) -> model.Composed:
        """Run specs of a choice of stored files."""
        return await asyncio.to_thread(self._catalogue.compose, asked)

    async def submit(self, user: User, asked: model.Submit) -> list[Run]:
        """Put runs at the end of the queue of a device."""
        return await self.queue(user, asked, await self.read_spec(asked.dut, asked.spec))

    async def queue(self, user: User, asked: model.Submit, found: ReadSpec) -> list[Run]:
        """Put runs of a run spec that was read at the end of the queue of a device.

        Raises:
            Refusal: the user has too many runs waiting, or too much on the disk, or the disk is nearly full.
        """
        await self._queues.quota.check(user.name)
        self._check_waiting(user, asked.repeat)
        experiment = found.experiment
        profile = experiment.device.profile
        return [
            self._add(
                asked.spec,
                found.text,
                dut=self.store.dut(asked.dut).name,
                user=user.name,
                name=asked.name or workload_of(experiment),
                series=series_of(experiment),
                profile=None if profile is None else Path(profile).stem,
            )
            for _ in range(asked.repeat)
        ]

    def _check_waiting(self, user: User, more: int) -> None:
        waiting = sum(run.user == user.name for dut in self.store.duts() for run in self.store.queue(dut.name))
        if waiting + more > MOST_WAITING:
            problem = f"{user.name} has {waiting} runs waiting, and {more} more are over the limit of {MOST_WAITING}"
            raise Refusal(f"{problem} of one user: cancel some, or wait", status=429)

    async def read_spec(self, dut: str, spec: str) -> ReadSpec:
        """A run spec (YAML) as it would be played on a device; others are served meanwhile.

        Raises:
            InputError: as `Catalogue.read`.
        """
        return await asyncio.to_thread(_read, self._catalogue, spec, self.store.dut(dut), self.store.duts())

    def _add(self, submitted: str, spec: str, **about: Any) -> Run:
        """Its files are there before a queue sees it: nothing else of this process runs in between."""
        run = self.store.add_run(**about)
        files = self.place.run(run.id)
        files.folder.mkdir(parents=True)
        files.submitted.write_text(submitted, encoding="utf-8")
        files.spec.write_text(spec, encoding="utf-8")
        self.changes.announce()
        return run

    async def list_runs(self, user: User, asked: model.RunQuery) -> list[Run]:
        """The selected runs, newest first."""
        return await self._with_progress(self.store.runs(asked))

    async def get_queue(self, user: User, asked: model.DutName) -> list[Run]:
        """What plays and waits for a device, in order."""
        return await self._with_progress(self.store.queue(self.store.dut(asked.dut).name))

    async def get_run(self, user: User, asked: model.RunName) -> Run:
        """One run."""
        (run,) = await self._with_progress([self.store.run(asked.run)])
        return run

    async def _with_progress(self, runs: Sequence[Run]) -> list[Run]:
        return [
            replace(run, progress=await asyncio.to_thread(self._progress.of, run, self.place.run(run.id).results))
            if run.state is State.RUNNING
            else run
            for run in runs
        ]

    async def cancel_run(self, user: User, asked: model.RunName) -> Run:
        """Stop a run; it is over once it has closed its folder."""
        run = self.store.run(asked.run)
        _check_owner(user, run.user)
        if run.state.is_over:
            raise Refusal(f"run {run.id} is over: {run.state}", status=409)
        self._queues.cancel(run)
        return self.store.run(run.id)

    async def follow_run(self, user: User, asked: model.RunName) -> AsyncGenerator[model.Event]:
        """Its log, its states and its progress, from the start to the end of the run."""
        seen: Run | None = None
        log, offset = self.place.run(self.store.run(asked.run).id).log, 0
        with self.changes.noticed() as changed:
            while seen is None or not seen.state.is_over:
                changed.clear()
                run = await self.get_run(user, asked)
                lines, offset = await asyncio.to_thread(_new_lines, log, offset, is_last=run.state.is_over)
                for line in lines:
                    yield model.Event(log=line)
                if run != seen:
                    yield model.Event(run=run)
                seen = run
                waiting = asyncio.ensure_future(changed.wait())
                await asyncio.wait([waiting], timeout=_LOOK_S)
                waiting.cancel()

    async def get_report(self, user: User, asked: model.RunName) -> dict[str, Any]:
        """The facts of the report."""
        folder = self.results(self.store.run(asked.run))
        return await asyncio.to_thread(lambda: stored_result(folder).to_json())

    async def judge(self, user: User, asked: model.Judge) -> dict[str, Any]:
        """The verdict on a run by other rules; its folder does not change."""
        return verdict_to_json((await self.judged(asked)).verdict)

    async def judged(self, asked: model.Judge) -> PageFacts:
        """The facts of a run with the verdict by other rules.

        Raises:
            InputError: rules in two ways, or none that are stored; no results, or those of several jobs.
        """
        folder = self.results(self.store.run(asked.run))
        return await asyncio.to_thread(lambda: history.judged(folder, self._rules(asked)))

    def _rules(self, asked: model.Judge) -> Rules | None:
        if None not in (asked.expect, asked.rules):
            raise Refusal("give expect or rules, not both")
        if asked.rules is not None:
            return parse_rules(asked.rules)
        return None if asked.expect is None else self._catalogue.rules(asked.expect)

    async def compare(self, user: User, asked: model.CompareQuery) -> dict[str, Any]:
        """Two groups of runs, class by class."""
        return comparison_to_json(await self.comparison(asked))

    async def comparison(self, asked: model.CompareQuery) -> GroupComparison:
        """The same as a value."""
        groups = {
            " ".join([name, *(f"#{one}" for one in numbers[:3]), *(["…"] if len(numbers) > 3 else [])]): [
                self.results(self.store.run(one)) for one in dict.fromkeys(numbers)
            ]
            for name, numbers in (("baseline", asked.baseline), ("other", asked.other))
        }
        return await asyncio.to_thread(history.compare_folders, groups, force=asked.force)

    async def get_trend(self, user: User, asked: model.TrendQuery) -> list[model.TrendPoint]:
        """One spec on one device over time, oldest first: the newest of its complete runs."""
        runs = self.in_trend(asked)
        return await asyncio.to_thread(history.trend_of, runs, [self.results(run) for run in runs])

    def in_trend(self, asked: model.TrendQuery) -> Sequence[Run]:
        """The runs of a trend, newest first."""
        which = model.RunQuery(dut=asked.dut, series=asked.series, state=State.COMPLETE, limit=_MOST_IN_TREND)
        return self.store.runs(which)

    async def list_reservations(self, user: User, asked: model.Nothing) -> list[model.Reservation]:
        """All that are not over."""
        return self.store.reservations(time.time())

    async def reserve(self, user: User, asked: model.Reserve) -> model.Reservation:
        """Keep a device for the user's own runs. What plays when a reservation begins plays to its end."""
        begin_s, end_s = asked.begin.timestamp(), asked.end.timestamp()
        if not max(begin_s, time.time()) < end_s <= begin_s + _LONGEST_RESERVATION_S:
            raise Refusal("a reservation ends after it began, in the future, and after 31 days at most")
        dut = self.store.dut(asked.dut).name
        found = self.store.add_reservation(dut=dut, user=user.name, begin_s=begin_s, end_s=end_s)
        self.changes.announce()
        return found

    async def release(self, user: User, asked: model.ReservationName) -> model.Nothing:
        """End a reservation."""
        found = [one for one in self.store.reservations(time.time()) if one.id == asked.reservation]
        if not found:
            raise Refusal(f"there is no reservation {asked.reservation} that is not over", status=404)
        _check_owner(user, found[0].user)
        self.store.remove_reservation(asked.reservation)
        self.changes.announce()
        return model.Nothing()

    def results(self, run: Run) -> Path:
        """The run folder of a run, or the folder of its session.

        Raises:
            Refusal: it has none yet, or ended before it had one.
        """
        folder = self.place.run(run.id).results
        if not folder.is_dir():
            raise Refusal(f"run {run.id} is {run.state} and has no results", status=409)
        return folder


def _check_owner(user: User, owner: str) -> None:
    if user.name != owner and not user.role.includes(Role.ADMIN):
        raise Refusal(f"it is of {owner}: only they and administrators may do this", status=403)


def _new_lines(log: Path, offset: int, *, is_last: bool) -> tuple[list[str], int]:
    """Whole lines after an offset, and the offset after them."""
    if not log.exists():
        return [], offset
    with log.open("rb") as file:
        file.seek(offset)
        found = file.read(1 << 20)
    whole = found if is_last else found[: found.rfind(b"\n") + 1]
    return [visible(line) for line in whole.decode(errors="replace").splitlines()], offset + len(whole)
