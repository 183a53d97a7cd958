"""The client of `charkha serve`: docs/serve.md shows it in use."""

from __future__ import annotations

from emulator.annexes.service.client import Client
from emulator.annexes.service.model import Dut, Event, Refusal, Reservation, Role, Run, State, TrendPoint, User
from emulator.errors import HostError

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
