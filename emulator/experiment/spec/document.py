"""Run specs as YAML files, and the run spec of a stored run."""

from __future__ import annotations

import os
from pathlib import Path

import yaml
from msgspec.structs import replace

from emulator.errors import InputError, PlanError
from emulator.experiment.settle.workload import trace_digest
from emulator.experiment.spec.spec import FILES_OF_AGENTS, Experiment, Job
from emulator.planner.msccl.document import MAX_XML_BYTES
from emulator.planner.msccl.loaded import load_algorithm
from emulator.results.run_folder.reader import Run
from emulator.results.verdict.rules import EXAMPLE
from emulator.schema import SchemaProblem, decode
from emulator.shipped import TOPOLOGIES, TRACES
from emulator.topology.document import Document, read_document
from emulator.topology.load import load_topology


def read_experiment(path: Path) -> Experiment:
    """Read a run spec. Relative paths in it start at the folder of the file.

    Raises:
        InputError: the file cannot be read, or is not a run spec; the message has file, line and key.
    """
    return relative_to(path.parent, experiment_in(read_document(path)))


def experiment_in(document: Document) -> Experiment:
    """The run spec in a document, with its paths as written.

    Raises:
        InputError: it is not a run spec; the message has line and key.
    """
    try:
        return decode(document.value, Experiment)
    except SchemaProblem as problem:
        raise document.error(problem.problem, problem.path) from problem


def to_yaml(experiment: Experiment) -> str:
    """A run spec as a file that `read_experiment` reads."""
    return yaml.safe_dump(experiment.to_plain(), sort_keys=False, allow_unicode=True, width=120)


def experiment_of_run(run: Run) -> Experiment:
    """The run spec that a stored run was made from, to play it again.

    Raises:
        InputError: the run has no run spec, or its trace or topology has changed.
    """
    manifest = run.manifest
    if manifest.spec is None:
        raise InputError(f"{run.folder}: cannot be repeated: it was written before runs stored their run spec")
    try:
        experiment = decode(dict(manifest.spec), Experiment)
    except SchemaProblem as problem:
        raise InputError(f"{run.folder}: manifest.json: spec: {problem}") from problem
    trace, topology = experiment.job.trace, experiment.network.topology
    if trace is not None and trace_digest(trace) != manifest.trace.digest:
        raise InputError(f"{trace.path}: the trace has changed since {run.folder} was played")
    if topology is not None:
        found = load_topology(Path(topology), ranks=0, allow_networks=experiment.network.allow_networks)
        if found.digest != manifest.topology.get("digest"):
            raise InputError(f"{topology}: the topology has changed since {run.folder} was played")
    return experiment


def _moved_rules(folder: Path, name: str | None) -> str | None:
    """Rules next to the file; a name of shipped rules stays."""
    return name if name is None or name == EXAMPLE else os.fspath(folder / name)


def relative_to(folder: Path, experiment: Experiment) -> Experiment:
    """The run spec with paths that start at a folder, usually that of the file that has it."""

    def moved(path: str | None) -> str | None:
        return None if path is None else os.fspath(folder / path)

    def moved_job(job: Job) -> Job:
        algorithms = {kind: os.fspath(folder / one) if is_file(one) else one for kind, one in job.algorithms.items()}
        trace = job.trace
        if trace is not None:
            path = os.fspath(TRACES.find(trace.path, beside=folder))
            trace = replace(trace, path=path, groups=moved(trace.groups))
        return replace(job, algorithms=algorithms, trace=trace)

    network, agents, observe = experiment.network, experiment.agents, experiment.observe
    if network.topology is not None:
        network = replace(network, topology=os.fspath(TOPOLOGIES.find(network.topology, beside=folder)))
    return replace(
        experiment,
        jobs=tuple(map(moved_job, experiment.jobs)),
        network=network,
        agents=replace(
            agents,
            **{name: moved(getattr(agents, name)) for name in FILES_OF_AGENTS},
        ),
        observe=replace(observe, calibration=moved(observe.calibration), expect=_moved_rules(folder, observe.expect)),
    )


SUFFIX = ".xml"
"""What the name of a file ends with."""


def is_file(algorithm: str) -> bool:
    """Whether it is the path of a file, not a name."""
    return algorithm.endswith(SUFFIX)


def name_of(algorithm: str) -> str:
    """The name of an algorithm: as it is, or that of the one in a file.

    Raises:
        PlanError: the file cannot be read, or its algorithm does not compute its collective.
    """
    if not is_file(algorithm):
        return algorithm
    try:
        with Path(algorithm).open("rb") as file:
            data = file.read(MAX_XML_BYTES + 1)
        text = data.decode("utf-8")
    except OSError as error:
        raise PlanError(f"{algorithm}: cannot be read ({error.strerror or error})") from error
    except UnicodeDecodeError as error:
        raise PlanError(f"{algorithm}: is not UTF-8 text") from error
    return load_algorithm(text, algorithm).name
