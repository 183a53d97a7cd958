"""The client of `charkha serve`: docs/serve.md shows it in use."""

from __future__ import annotations

from emulator.errors import HostError
from emulator.service.client import Client
from emulator.service.model import Dut, Event, Refusal, Reservation, Role, Run, State, TrendPoint, User

__all__ = [
    "Client",
    "Dut",
    "Event",
    "HostError",
    "Refusal",
    "Reservation",
    "Role",
    "Run",
    "State",
    "TrendPoint",
    "User",
]
