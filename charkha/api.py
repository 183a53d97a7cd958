"""The functions behind `import charkha`. Heavy libraries are loaded when a function needs them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from emulator.errors import InputError
from emulator.experiment.spec.spec import Experiment

if TYPE_CHECKING:
    import pyarrow as pa

    from charkha.comparison import Comparison
    from charkha.notebook import OfflinePage
    from emulator.results.run_folder.manifest import Manifest
    from emulator.results.statistics.summary import RunSummary as Summary
    from emulator.views.html.page.document import Page
else:
    Comparison = Summary = Picture = Page = Any

TABLES = ("classes", "samples", "iterations", "flows", "counters", "compute")


@dataclass(frozen=True, slots=True)
class Run:
    """A run folder.

    Attributes:
        folder: where it is.
        manifest: everything except the tables: command line, settings, versions, hosts, topology.
    """

    folder: Path
    manifest: Manifest

    def __repr__(self) -> str:
        trace, trials = self.manifest.trace, self.manifest.trials
        what = f"{self.manifest.status}, {trace.ranks} ranks, {trials.included} iterations"
        return f"<Run {str(self.folder)!r}: {Path(trace.path).name!r}, {what}>"

    def _repr_html_(self) -> str:
        from charkha.notebook import table_html

        return table_html(self._page(), "classes", repr(self))

    def plot(self, name: str | None = None) -> OfflinePage:
        """A picture of its report; None: the distribution of cct.

        Raises:
            InputError: there is no such picture; the error names those there are.
            ResultError: a table of the run is missing or damaged.
        """
        from charkha.notebook import picture_of

        return picture_of(self._page(), name, "cct-distribution")

    def _page(self) -> Page:
        from emulator.experiment.play.outcome import stored_result

        return stored_result(self.folder).page(self.folder)

    @property
    def experiment(self) -> Experiment:
        """The run spec it was made from.

        Raises:
            InputError: the run is older than run specs, or its trace or topology has changed since.
        """
        from emulator.experiment.spec.document import experiment_of_run
        from emulator.results.run_folder.reader import read_run

        return experiment_of_run(read_run(self.folder))

    def summary(self) -> Summary:
        """What the table of `charkha run` shows: classes of collectives, iterations, flows.

        Raises:
            ResultError: a table of the run is missing or damaged.
        """
        from emulator.results.run_folder.reader import read_run
        from emulator.results.statistics.summary import summarise

        return summarise(read_run(self.folder))

    def table(self, name: str = "classes") -> pa.Table:
        """One of TABLES: a row per class of collectives, sample, iteration …; docs/results.md explains the columns.

        Raises:
            InputError: there is no such table.
            ResultError: it is missing or damaged.
        """
        from emulator.results.run_folder.reader import read_run
        from emulator.results.run_folder.schema import RunTable

        if name not in TABLES:
            raise InputError(f"there is no table {name!r}; choose from {', '.join(TABLES)}")
        if name == "classes":
            from charkha.comparison import classes_table

            return classes_table(self.summary())
        return read_run(self.folder).table(RunTable(name))


@dataclass(frozen=True, slots=True)
class Session:
    """The folder of a session of several jobs.

    Attributes:
        folder: where it is.
        jobs: name → run.
        solo: name → run of the job alone, as far as it was played.
        starts_ns: name → when its first iteration was told to begin, on the clock of all time stamps of `jobs`.
    """

    folder: Path
    jobs: Mapping[str, Run]
    solo: Mapping[str, Run]
    starts_ns: Mapping[str, int]

    def __repr__(self) -> str:
        return f"<Session {str(self.folder)!r}: jobs {', '.join(self.jobs)}>"


Runs: TypeAlias = "str | Path | Run | Sequence[str | Path | Run]"
"""Runs that repeat each other: a run, a run folder, a folder of run folders, a pattern, or a list of these."""


def play(
    experiment: Experiment,
    folder: str | Path | None = None,
    *,
    notify: Callable[[str], None] = lambda _: None,
) -> Run:
    """Play an experiment, and return its run.

    Args:
        experiment: what to play; its campaign, if any, is ignored.
        folder: run folder to make; None: runs/<time>-<name>.
        notify: receives lines for the user, for example what limits the tester.

    Raises:
        InputError: bad input; nothing was sent.
        RunError: the run failed; the folder keeps what was measured.
        HostError: this host lacks something.
    """
    from emulator.experiment.play import play as playing

    if len(experiment.jobs) > 1:
        raise InputError(f"there are {len(experiment.jobs)} jobs: play them as a session (play_session)")
    run = playing.play(experiment, None if folder is None else Path(folder), notify=notify).run
    return Run(run.folder, run.manifest)


def play_session(
    experiment: Experiment,
    folder: str | Path,
    *,
    solo: bool = False,
    notify: Callable[[str], None] = lambda _: None,
) -> Session:
    """Play all jobs of an experiment at once.

    Args:
        experiment: what to play.
        folder: folder of the session to make.
        solo: play each job alone first, at the same places.
        notify: receives lines for the user.

    Raises:
        InputError: bad input; nothing was sent.
        RunError: a job failed; the folder keeps what was measured.
        HostError: this host lacks something.
    """
    from emulator.experiment.play import play as playing

    playing.play(experiment, Path(folder), solo=solo, notify=notify)
    return load_session(folder)


def load_session(folder: str | Path) -> Session:
    """Open the folder of a session, or of a run: a session of one job.

    Raises:
        ResultError: it is neither, is damaged, or was written by a newer version.
    """
    from emulator.results.run_folder import session

    found = session.load_session(Path(folder))
    jobs, solo = (
        {name: Run(run.folder, run.manifest) for name, run in runs.items()} for runs in (found.jobs, found.solo)
    )
    return Session(found.folder, jobs, solo, found.starts_ns)


def load_run(folder: str | Path) -> Run:
    """Open a run folder of this version or an earlier one.

    Raises:
        ResultError: it is not a run folder, is damaged, or was written by a newer version.
    """
    from emulator.results.run_folder.reader import read_run

    run = read_run(Path(folder))
    return Run(run.folder, run.manifest)


def read_experiment(path: str | Path) -> Experiment:
    """Read a run spec from a YAML file.

    Raises:
        InputError: it cannot be read, or does not fit; the error names file, line and key.
    """
    from emulator.experiment.spec.document import read_experiment as read

    return read(Path(path))


def compare(before: Runs, after: Runs, *, margin: float = 0.03, force: bool = False) -> Comparison:
    """Compare two groups of runs, class by class; `print` shows the table of `charkha compare`.

    Args:
        before, after: runs, run folders, folders of run folders, patterns of either, or a list of them.
        margin: smallest relative difference of times that counts.
        force: compare runs whose settings differ, too; the answer says so.

    Raises:
        InputError: there is no run, or the runs are not comparable.
        ResultError: a run cannot be read.
    """
    from charkha.comparison import Comparison
    from emulator.results.comparison.comparability import check_comparability
    from emulator.results.comparison.groups import groups_of, short_names
    from emulator.results.comparison.verdicts import ComparisonRules
    from emulator.results.comparison.verdicts import compare as compare_groups

    names = short_names([_name(before), _name(after)])
    groups = groups_of(dict(zip(names, map(_folders, (before, after)), strict=True)))
    comparability = check_comparability(groups)
    if comparability.refused and not force:
        raise InputError(f"the runs are not comparable: {' | '.join(map(str, comparability.refused))}")
    found = compare_groups(groups, comparability, ComparisonRules(margin=margin))
    return Comparison(found.rules, found.groups, found.pairs, found.comparability)


def _name(runs: Runs) -> str:
    """What a group is called: its folder, that of its only run, or the folder that holds all of them."""
    if isinstance(runs, str | Path):
        return str(runs)
    if isinstance(runs, Run):
        return str(runs.folder)
    names = [_name(one) for one in runs]
    if not names:
        raise InputError("a group to compare has no run")
    return names[0] if len(names) == 1 else os.path.commonpath([os.path.abspath(name) for name in names])  # noqa: PTH100


def _folders(runs: Runs) -> list[Path]:
    from emulator.results.comparison.groups import find_group

    if isinstance(runs, Run):
        return [runs.folder]
    if isinstance(runs, str | Path):
        return find_group(str(runs))
    return [folder for one in runs for folder in _folders(one)]
