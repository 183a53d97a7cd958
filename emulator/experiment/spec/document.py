"""Run specs as YAML files, and the run spec of a stored run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import yaml
from msgspec import Struct
from msgspec.structs import replace

from emulator.errors import InputError, PlanError
from emulator.experiment.settle.workload import trace_digest
from emulator.experiment.spec.readers import is_algorithm_file
from emulator.experiment.spec.spec import Experiment
from emulator.host.files import read_bounded
from emulator.option import options_of
from emulator.planner.algorithms import MAX_ALGORITHM_BYTES, load_algorithm
from emulator.results.run_folder.reader import Run
from emulator.schema import SchemaProblem, decode
from emulator.topology.document import Document, read_document
from emulator.topology.load import load_topology
from emulator.visible import visible_lines


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
    plain = experiment.to_plain()
    text: str = yaml.safe_dump(plain, sort_keys=False, width=120, allow_unicode=True)
    return text if visible_lines(text) == text else str(yaml.safe_dump(plain, sort_keys=False, width=120))


def stored_spec(run: Run) -> Experiment:
    """The run spec that a stored run was made from.

    Raises:
        InputError: the run has none, or it is not valid.
    """
    if run.manifest.spec is None:
        raise InputError(f"{run.folder}: cannot be repeated: it was written before runs stored their run spec")
    try:
        return decode(dict(run.manifest.spec), Experiment)
    except SchemaProblem as problem:
        raise InputError(f"{run.folder}: manifest.json: spec: {problem}") from problem


def experiment_of_run(run: Run) -> Experiment:
    """The run spec that a stored run was made from, to play it again.

    Raises:
        InputError: the run has no run spec, or its trace or topology has changed.
    """
    experiment, manifest = stored_spec(run), run.manifest
    trace, topology = experiment.job.trace, experiment.network.topology
    if trace is not None and trace_digest(trace) != manifest.trace.digest:
        raise InputError(f"{trace.path}: the trace has changed since {run.folder} was played")
    if topology is not None:
        found = load_topology(Path(topology), ranks=0, allow_networks=experiment.network.allow_networks)
        if found.digest != manifest.topology.get("digest"):
            raise InputError(f"{topology}: the topology has changed since {run.folder} was played")
    return experiment


S = TypeVar("S", bound=Struct)


def relative_to(folder: Path, section: S) -> S:
    """A run spec, or a section of one, with paths that start at a folder, usually that of the file that has it."""
    locate = {one.name: one.facts.locate for one in options_of(type(section)) if "." not in one.path}
    moved: dict[str, Any] = {}
    for name in section.__struct_fields__:
        value, find = getattr(section, name), locate.get(name)
        if isinstance(value, Struct):
            moved[name] = relative_to(folder, value)
        elif isinstance(value, tuple) and value and isinstance(value[0], Struct):
            moved[name] = tuple(relative_to(folder, one) for one in value)
        elif find is not None and value is not None:
            is_mapping = isinstance(value, Mapping)
            moved[name] = {key: find(folder, one) for key, one in value.items()} if is_mapping else find(folder, value)
    return replace(section, **moved)


def with_absolute_paths(experiment: Experiment) -> Experiment:
    """As it is stored, to be played again from any working directory: paths are absolute, it belongs to no campaign."""
    return replace(relative_to(Path.cwd(), experiment), campaign=None)


def name_of(algorithm: str) -> str:
    """The name of an algorithm: as it is, or that of the one in a file.

    Raises:
        PlanError: the file cannot be read, or its algorithm does not compute its collective.
    """
    if not is_algorithm_file(algorithm):
        return algorithm
    try:
        text = read_bounded(Path(algorithm), MAX_ALGORITHM_BYTES).decode("utf-8")
    except OSError as error:
        raise PlanError(f"{algorithm}: cannot be read ({error.strerror or error})") from error
    except UnicodeDecodeError as error:
        raise PlanError(f"{algorithm}: is not UTF-8 text") from error
    return load_algorithm(text, algorithm).name
