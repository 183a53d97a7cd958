"""Roles in the names of a certificate."""

from __future__ import annotations

from emulator.certificates.roles import Role, role_uri, roles_of


def test_a_role_is_found_among_other_names() -> None:
    assert roles_of(["lab.test", role_uri(Role.AGENT), "192.0.2.1"]) == ["agent"]


def test_a_certificate_of_another_authority_has_no_role() -> None:
    assert roles_of(["lab.test", "urn:other:role:agent"]) == []
