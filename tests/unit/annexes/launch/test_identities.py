"""Identities that are made for one launch."""

from __future__ import annotations

from pathlib import Path

import pytest

from emulator.annexes.launch.identities import issue_identities
from emulator.control.certificates.identity import check_identity
from emulator.control.certificates.roles import Role


def test_each_has_its_role_and_nothing_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    made = issue_identities(["a", "b"], controller="controller", addresses=["launch.test"], lasting_s=60)
    assert [*scratch.iterdir()] == []
    for name, role in (("controller", Role.CONTROLLER), ("a", Role.AGENT), ("b", Role.AGENT)):
        path = tmp_path / name
        path.write_text(made[name])
        path.chmod(0o600)
        check_identity(path, role)
    assert len(set(made.values())) == 3
