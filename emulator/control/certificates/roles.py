"""Roles of those who take part: a certificate or a token says which its holder has. What each may do is said here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum

_PREFIX = "urn:charkha:role:"


class Role(StrEnum):
    """Who somebody is."""

    CONTROLLER = "controller"
    """Gives agents runs to play."""
    AGENT = "agent"
    """Plays them."""
    OPERATOR = "operator"
    """Starts runs at a service, and cancels them."""
    VIEWER = "viewer"
    """Looks at runs."""


class Action(StrEnum):
    """What somebody may do."""

    GIVE_RUNS = "give agents runs"
    PLAY = "play runs"
    START = "start and cancel runs"
    VIEW = "look at runs"


_ACTIONS: Mapping[Role, frozenset[Action]] = {
    Role.CONTROLLER: frozenset({Action.GIVE_RUNS}),
    Role.AGENT: frozenset({Action.PLAY}),
    Role.OPERATOR: frozenset({Action.START, Action.VIEW}),
    Role.VIEWER: frozenset({Action.VIEW}),
}


def may(role: str, action: Action) -> bool:
    """Whether a role allows an action; one that nobody knows allows nothing."""
    return role in _ACTIONS and action in _ACTIONS[Role(role)]


def role_uri(role: Role) -> str:
    """The name in a certificate that grants a role."""
    return f"{_PREFIX}{role}"


def roles_of(names: Iterable[str]) -> list[str]:
    """The roles among the alternative names of a certificate; none if its authority does not know roles."""
    return [name.removeprefix(_PREFIX) for name in names if name.startswith(_PREFIX)]
