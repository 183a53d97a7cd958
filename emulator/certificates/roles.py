"""Roles of those who take part in control: a certificate says which its holder has."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

_PREFIX = "urn:charkha:role:"


class Role(StrEnum):
    """Who may do what."""

    CONTROLLER = "controller"
    """Gives agents runs to play."""
    AGENT = "agent"
    """Plays them."""


def role_uri(role: Role) -> str:
    """The name in a certificate that grants a role."""
    return f"{_PREFIX}{role}"


def roles_of(names: Iterable[str]) -> list[str]:
    """The roles among the alternative names of a certificate; none if its authority does not know roles."""
    return [name.removeprefix(_PREFIX) for name in names if name.startswith(_PREFIX)]
