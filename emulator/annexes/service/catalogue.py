"""Stored files: what run specs may name. They may name nothing else, and set nothing that reaches beyond the run."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from emulator.annexes.service.configuration import Configuration
from emulator.annexes.service.model import MOST_FILES, MOST_REPEATS, Compose, Composed, Dut, Refusal, Stored, StoredFile
from emulator.errors import EventError, TraceError
from emulator.experiment.settle.events import refuse_commands
from emulator.experiment.spec.document import experiment_in, to_yaml
from emulator.experiment.spec.parts import build_experiment, merge, part_of
from emulator.experiment.spec.readers import is_algorithm_file
from emulator.experiment.spec.settings import ALGORITHMS, SETTINGS, is_set
from emulator.experiment.spec.spec import Experiment, Job
from emulator.host.files import write_text
from emulator.plugins import PluginKind, load
from emulator.results.verdict.rules import EXAMPLE, Rules, load_rules, rules_from
from emulator.schema import SchemaProblem
from emulator.shipped import PROFILES, TOPOLOGIES, TRACES, first_line, shipped_suites
from emulator.suggestions import did_you_mean
from emulator.topology.document import parse_document
from emulator.topology.load import joining_hosts, load_topology
from emulator.trace.files.files import find_trace

SPEC = Path("run spec")
"""Stands for its file in errors."""
MOST_SPEC_VALUES = 20_000
"""Values and keys of a user's run spec."""
_RULES = Path("rules")
"""Stands for the file of rules in errors."""
_MOST_RULES_VALUES = 5_000
_DEPTH = 3
"""Folders below a configured one in which traces are looked for."""
PAIRS = "pairs"
"""The bench that is no collective."""
_KINDS = ("traces", "topologies", "profiles", "suites")


class Catalogue:
    """The files below the configured folders, looked up at every use: files may come and go.

    Args:
        configuration: names the folders.
        rules: folder for the rules of cases, which are no files of their own.
        uploads: folder for the traces and rules of users.
    """

    def __init__(self, configuration: Configuration, *, rules: Path, uploads: Path) -> None:
        self._rules, self._uploads = rules, uploads
        self._roots = {kind: [Path(one) for one in getattr(configuration, kind)] for kind in _KINDS}
        self._roots["traces"].append(uploads)

    def stored(self) -> Stored:
        """All of them."""
        listed = {
            kind: tuple(StoredFile(name=name, about=first_line(path)) for name, path in self._paths(kind).items())
            for kind in (*_KINDS, "rules")
        }
        return Stored(**listed)

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """An empty folder for the files of a trace that comes; it goes away."""
        with tempfile.TemporaryDirectory(dir=self._uploads, prefix=".") as folder:
            made = Path(folder) / "trace"
            made.mkdir()
            yield made

    def add_trace(self, user: str, name: str, made: Path) -> StoredFile:
        """Store a trace of a user; other users may play it, too.

        Args:
            user, name: it becomes USER/NAME.
            made: a folder in `scratch` with its files.

        Raises:
            Refusal: there is one of that name, or the files are no trace.
        """
        try:
            find_trace(made)
        except TraceError as error:
            problem = error.problem or str(error)
            raise Refusal(f"{problem}: upload .et files, as charkha trace convert writes them") from error
        target = self._uploads / user / name
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            made.rename(target)
        except OSError:  # of a folder that is not empty
            raise Refusal(f"{user} has a trace {name}: give another name", status=409) from None
        return StoredFile(name=f"{user}/{name}")

    def add_rules(self, user: str, name: str, text: str) -> StoredFile:
        """Store rules of a user; other users may name them, too.

        Raises:
            Refusal: there are some of that name, or as many as a user may have.
            InputError: the text is no rules file.
        """
        parse_rules(text)
        target = self._uploads / user / f"{name}.yaml"
        target.parent.mkdir(parents=True, exist_ok=True)
        if len(list(target.parent.glob("*.yaml"))) >= MOST_FILES:
            raise Refusal(f"{user} has {MOST_FILES} files of rules, the most that one user may store", status=507)
        with tempfile.NamedTemporaryFile(dir=self._uploads, prefix=".") as scratch:
            scratch.write(text.encode())
            scratch.flush()
            try:
                os.link(scratch.name, target)
            except FileExistsError:
                raise Refusal(f"{user} has rules {name}: give another name", status=409) from None
        return StoredFile(name=f"{user}/{name}", about=first_line(target))

    def rules(self, name: str) -> Rules:
        """Rules that are stored, by a name as in `Compose`.

        Raises:
            Refusal: there are none of this name.
        """
        return load_rules(name if name == EXAMPLE else str(self._rules_of(name)))

    def compose(self, choice: Compose) -> Composed:
        """Run specs of a choice.

        Raises:
            InputError: not exactly one of trace, suite and bench, a name that is not stored, or values that do not fit.
        """
        if [choice.trace, choice.suite, choice.bench].count(None) != 2:
            raise Refusal("choose a trace, a suite or a bench")
        over: dict[str, Any] = {}
        for kind, name, section, key in (
            ("topologies", choice.topology, "network", "topology"),
            ("profiles", choice.profile, "device", "profile"),
        ):
            if name is not None:
                self._find(kind, name)
                over[section] = {key: name}
        if choice.iterations is not None:
            over["job"] = {"iterations": choice.iterations}
        if choice.suite is not None:
            if choice.vary is not None or choice.expect is not None:
                raise Refusal("the cases of a suite have rules and settings of their own: leave out expect and vary")
            return self._compose_suite(choice.suite, over)
        if choice.expect is not None:
            if choice.expect != EXAMPLE:
                self._rules_of(choice.expect)
            over["observe"] = {"expect": choice.expect}
        name = choice.bench or str(choice.trace)
        try:
            experiment = build_experiment(merge({"job": self._job(choice)}, over))
        except SchemaProblem as problem:
            raise Refusal(str(problem)) from problem
        if choice.vary is None:
            return Composed(specs={name: to_yaml(experiment)})
        points: Mapping[str, Experiment] = load(PluginKind.HOOKS, "sweep_points")(choice.vary, experiment)
        if len(points) > MOST_REPEATS:
            raise Refusal(f"vary: {len(points)} values are more than {MOST_REPEATS}: each is a run")
        return Composed(specs={f"{name} {point}": to_yaml(one) for point, one in points.items()})

    def _job(self, choice: Compose) -> dict[str, Any]:
        if choice.trace is not None:
            self._find("traces", choice.trace)
            return {"trace": {"path": choice.trace}}
        if choice.ranks is None:
            raise Refusal("ranks: a bench needs a number of ranks")
        if choice.bench == PAIRS:
            return {"pair_sweep": {"ranks": choice.ranks, **({"size_bytes": choice.sizes} if choice.sizes else {})}}
        sizes = {"sizes": choice.sizes.split(",")} if choice.sizes else {}
        return {"sweep": {"collective": choice.bench, "ranks": choice.ranks, **sizes}}

    def _compose_suite(self, name: str, over: Mapping[str, Any]) -> Composed:
        runs: Mapping[str, Experiment]
        runs, left_out = load(PluginKind.HOOKS, "suite_runs")(self._find("suites", name), over)
        specs = {
            case: to_yaml(replace(one, observe=replace(one.observe, expect=f"{name}/{case}")))
            for case, one in runs.items()
        }
        return Composed(specs=specs, left_out=tuple(left_out))

    def read(self, text: str, dut: Dut, *, others: Sequence[Dut]) -> Experiment:
        """A run spec that may be played on a device: paths are absolute, and what the device sets is set.

        Args:
            text: as YAML.
            dut: the device.
            others: all devices.

        Raises:
            InputError: it is no run spec, names what is not stored, or sets what only an administrator may set.
        """
        written = experiment_in(parse_document(text.encode(), SPEC, most_values=MOST_SPEC_VALUES))
        _refuse_reach(written)
        network, device, observe = written.network, written.device, written.observe
        if network.topology is not None:
            network = replace(network, topology=str(self._find("topologies", network.topology)))
        self._check_device(dut, network.topology, others)
        if device.profile is not None:
            device = replace(device, profile=str(self._find("profiles", device.profile)))
        events = tuple(
            one if one.profile is None else replace(one, profile=str(self._find("profiles", one.profile)))
            for one in written.events
        )
        if observe.expect not in (None, EXAMPLE):
            observe = replace(observe, expect=str(self._rules_of(str(observe.expect))))
        jobs = tuple(map(self._with_stored_trace, written.jobs))
        observe = replace(observe, report=True)
        found = replace(written, jobs=jobs, events=events, network=network, device=device, observe=observe)
        try:
            return build_experiment(merge(part_of(found), dut.spec))
        except SchemaProblem as problem:
            raise Refusal(f"with what {dut.name} sets for all its runs: {problem}") from problem

    def check_dut(self, dut: Dut, others: Sequence[Dut]) -> None:
        """Refuse topologies that are not stored or lead through another device, and a part of a run spec that is none.

        Raises:
            Refusal: with the first problem.
        """
        for name in dut.topologies:
            self._find("topologies", name)
            other = next((one.name for one in others if name in one.topologies and one.name != dut.name), None)
            if other is not None:
                raise Refusal(f"the topology {name} leads through {other}: two runs at once would meet there")
        try:
            build_experiment(merge({"job": {"trace": {"path": "any"}}}, dut.spec))
        except SchemaProblem as problem:
            raise Refusal(f"spec: {problem}") from problem

    def _check_device(self, dut: Dut, topology: str | None, others: Sequence[Dut]) -> None:
        """A device takes the topologies that it lists; one that lists none takes those of loopback addresses."""
        if dut.topologies:
            if topology not in self._topologies_of(dut):
                raise Refusal(
                    f"network.topology: {dut.name} is tested over {', '.join(dut.topologies)}: name one of them"
                )
            return
        if topology is None or _is_loopback(Path(topology)):
            return
        owner = next((one.name for one in others if topology in self._topologies_of(one)), None)
        remedy = "an administrator lists a topology with its device" if owner is None else f"submit it for {owner}"
        raise Refusal(f"network.topology: {dut.name} lists no topologies, so it takes only loopback: {remedy}")

    def _topologies_of(self, dut: Dut) -> set[str]:
        return {str(self._find("topologies", name)) for name in dut.topologies}

    def _with_stored_trace(self, job: Job) -> Job:
        if job.trace is None:
            return job
        trace = replace(job.trace, path=str(self._find("traces", job.trace.path)))
        return replace(job, trace=trace)

    def _rules_of(self, name: str) -> Path:
        """The file of stored rules, or one for those of a case; a suite goes before a user of its name."""
        suite, _, wanted = name.rpartition("/")
        stored, suites = self._paths("rules"), self._paths("suites")
        if name in stored and suite not in suites:
            return stored[name]
        cases: Mapping[str, str] = load(PluginKind.HOOKS, "suite_rules")(suites[suite]) if suite in suites else {}
        if wanted not in cases:
            problem = f"observe.expect: {name!r}: write USER/NAME of stored rules, SUITE/CASE of a stored suite"
            raise Refusal(f"{problem}, or {EXAMPLE}{did_you_mean(name, stored)}")
        return self._kept_rules(cases[wanted])

    def _kept_rules(self, text: str) -> Path:
        """A file with the rules of a case, named by its content."""
        path = self._rules / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.yaml"
        if not path.exists():
            path.parent.mkdir(exist_ok=True)
            write_text(path, text)
        return path

    def _find(self, kind: str, given: str) -> Path:
        """A stored file by its name, or by its path below a configured folder."""
        paths = self._paths(kind)
        if given in paths:
            return paths[given]
        path = Path(given)
        beside = [
            *paths.values(),
            *(self._paths("suites").values() if kind == "traces" else ()),
        ]  # suites have their own
        roots = [*self._roots[kind], *{one.parent for one in beside}]
        if path.is_absolute() and any(_is_below(path, root) for root in roots):
            return path
        raise Refusal(f"{given!r} is none of the stored {kind}{did_you_mean(given, paths)}")

    def _paths(self, kind: str) -> Mapping[str, Path]:
        if kind == "rules":
            return {f"{one.parent.name}/{one.stem}": one for one in sorted(self._uploads.glob("*/*.yaml"))}
        if kind == "suites":
            shipped: Mapping[str, Path] = shipped_suites()
        else:
            shipped = {"traces": TRACES, "topologies": TOPOLOGIES, "profiles": PROFILES}[kind].paths
        found = dict(shipped)
        for root in self._roots[kind]:
            found |= dict(_traces_below(root) if kind == "traces" else _files_below(root))
        return dict(sorted(found.items()))


def parse_rules(text: str) -> Rules:
    """Rules that were typed or uploaded.

    Raises:
        InputError: they are none; the message has line and key.
    """
    return rules_from(parse_document(text.encode(), _RULES, most_values=_MOST_RULES_VALUES))


def _files_below(root: Path) -> Iterator[tuple[str, Path]]:
    for path in root.rglob("*.yaml"):
        yield path.relative_to(root).with_suffix("").as_posix(), path


def _traces_below(root: Path) -> Iterator[tuple[str, Path]]:
    for depth in range(1, _DEPTH + 1):
        for folder in root.glob("/".join("*" * depth)):
            if folder.is_dir() and not folder.relative_to(root).parts[0].startswith("."):
                try:
                    find_trace(folder)
                except TraceError:
                    continue
                yield folder.relative_to(root).as_posix(), folder


def _is_below(path: Path, root: Path) -> bool:
    try:
        return path.resolve().is_relative_to(root.resolve())
    except (OSError, ValueError, RuntimeError):  # a name that is too long, a zero byte, a loop of links
        return False


def _refuse_reach(experiment: Experiment) -> None:
    """A user may not name files or addresses of the service's machine, nor widen what traffic may reach."""
    if experiment.campaign is not None:
        raise Refusal("campaign: submit the run spec with `repeat` in place of it: each run waits for its turn")
    try:
        refuse_commands(experiment.events)
    except EventError as error:
        raise Refusal(f"events[{error.number}].{error.key}: runs a command, which no service does") from error
    for job in experiment.jobs:
        one_job = replace(experiment, jobs=(replace(job, until=None),))
        given = [one.path for one in SETTINGS if one.facts.is_reserved and is_set(one_job, one)]
        if any("/" in one or is_algorithm_file(one) for one in job.algorithms.values()):
            given.append(ALGORITHMS)
        if given:
            raise Refusal(f"{given[0]}: only an administrator can set it, in the spec of the device")


def _is_loopback(path: Path) -> bool:
    """Whether all traffic of a topology stays on this machine."""
    if joining_hosts(path) is not None:
        return False
    topology = load_topology(path, ranks=0)
    interfaces = (one for host in topology.network.interfaces.values() for one in host)
    addresses = [one.prefix or address for one in interfaces for address in (one.addresses or [""])]
    return not topology.network.is_drawn and all(ip_network(one).is_loopback for one in addresses)


def series_of(experiment: Experiment) -> str:
    """The same for run specs that play the same: profile and seed do not count."""
    same = replace(experiment, device=replace(experiment.device, profile=None), seed=None)
    return hashlib.sha256(msgspec.json.encode(same.to_plain(), order="sorted")).hexdigest()[:12]


def workload_of(experiment: Experiment) -> str:
    """A name for lists."""
    jobs = [job.trace.path.rsplit("/", 1)[-1] if job.trace else _kind(job) for job in experiment.jobs]
    return " + ".join(jobs)[:100]


def _kind(job: Job) -> str:
    if job.sweep is not None:
        return job.sweep.collective
    return PAIRS
