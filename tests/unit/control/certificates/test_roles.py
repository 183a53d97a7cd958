"""Roles in the names of a certificate, and what each may do."""

import pytest

from emulator.control.certificates.roles import Action, Role, may, role_uri, roles_of


def test_a_role_is_found_among_other_names() -> None:
    assert roles_of(["lab.test", role_uri(Role.AGENT), "192.0.2.1"]) == ["agent"]


def test_a_certificate_of_another_authority_has_no_role() -> None:
    assert roles_of(["lab.test", "urn:other:role:agent"]) == []


@pytest.mark.parametrize(
    ("role", "actions"),
    [
        ("controller", {Action.GIVE_RUNS}),
        ("agent", {Action.PLAY}),
        ("operator", {Action.START, Action.VIEW}),
        ("viewer", {Action.VIEW}),
        ("king", set()),
    ],
)
def test_a_role_allows_this_and_no_more(role: str, actions: set[Action]) -> None:
    assert {action for action in Action if may(role, action)} == actions
