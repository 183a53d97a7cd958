"""`-f FILE`, for commands that look at a run without playing it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from emulator.cli.options.table import OptionGroup, build
from emulator.cli.parser import Parser
from emulator.errors import InputError
from emulator.experiment.spec.document import read_experiment
from emulator.experiment.spec.parts import merge, part_of
from emulator.experiment.spec.spec import Experiment


def add_spec_file(parser: Parser) -> None:
    """Add the option."""
    parser.add_argument("-f", "--file", metavar="FILE", type=Path, help="the run spec in a YAML file, with its flows")


def experiment_of_file(file: Path, part: Mapping[str, Any], groups: Iterable[OptionGroup]) -> Experiment:
    """The run spec in a file; options override it.

    Raises:
        InputError: it cannot be read, has several jobs, or a value does not fit.
    """
    whole = read_experiment(file)
    if len(whole.jobs) > 1:
        raise InputError(f"{file}: has {len(whole.jobs)} jobs; give a run spec with one of them")
    return build(merge(part_of(whole), part), groups)
