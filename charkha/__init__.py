"""Charkha as a library: describe a run, play it, read its results, compare runs. docs/api.md shows it in use.

Everything else is internal: `emulator` holds the controller's side, `agents` what runs next to a NIC.
"""

from __future__ import annotations

from charkha.api import Run, compare, load_run, play, read_experiment
from emulator.errors import EmulatorError, HostError, InputError, RunError
from emulator.experiment.spec import Experiment

__all__ = [
    "EmulatorError",
    "Experiment",
    "HostError",
    "InputError",
    "Run",
    "RunError",
    "compare",
    "load_run",
    "play",
    "read_experiment",
]
