"""Charkha as a library: describe a run, play it, read its results, compare runs. docs/api.md shows it in use.

Everything else is internal: `emulator` holds the controller's side, `agents` what runs next to a NIC.
"""

from __future__ import annotations

from charkha.api import Run, Session, compare, load_run, load_session, play, play_session, read_experiment
from charkha.notebook import check, convert, export, generate, judge, plan, view
from emulator.errors import EmulatorError, HostError, InputError, RunError
from emulator.experiment.spec.spec import Experiment

__all__ = [
    "EmulatorError",
    "Experiment",
    "HostError",
    "InputError",
    "Run",
    "RunError",
    "Session",
    "check",
    "compare",
    "convert",
    "export",
    "generate",
    "judge",
    "load_run",
    "load_session",
    "plan",
    "play",
    "play_session",
    "read_experiment",
    "view",
]
