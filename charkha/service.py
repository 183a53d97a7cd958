"""The client of `charkha serve`: docs/serve.md shows it in use."""

from __future__ import annotations

from emulator.annexes.service.client import Client
from emulator.annexes.service.model import (
    Dut,
    Event,
    Progress,
    Refusal,
    Reservation,
    Role,
    Run,
    State,
    TrendPoint,
    User,
)
from emulator.errors import HostError

__all__ = [
    "Client",
    "Dut",
    "Event",
    "HostError",
    "Progress",
    "Refusal",
    "Reservation",
    "Role",
    "Run",
    "State",
    "TrendPoint",
    "User",
]
