"""A list of revoked identities holds those of its names, grows, and counts for its own authority only."""

from datetime import timedelta
from pathlib import Path

import pytest

from emulator.annexes.launch.authority import issue, make_authority, revoke
from emulator.control.certificates.identity import LIST, revoked, serial_of
from emulator.control.certificates.roles import Role
from emulator.errors import InputError

DAY = timedelta(days=1)


def serial(folder: Path, name: str, out: Path) -> int:
    return serial_of(issue(folder, name, role=Role.AGENT, valid=DAY, out=out).path.read_bytes())


def test_the_list_grows_by_all_identities_of_a_name(tmp_path: Path) -> None:
    authority = make_authority(tmp_path / "a", name="a")
    folder, controller = authority.parent, authority.parent / "controller.pem"
    assert revoked(controller, authority.read_bytes()) == frozenset()
    first, second, other = (serial(folder, name, tmp_path / f"{at}.pem") for at, name in enumerate(["w", "w", "e"]))
    revoke(folder, "w")
    assert revoked(controller, authority.read_bytes()) == {first, second}
    revoke(folder, "e")
    assert revoked(controller, authority.read_bytes()) == {first, second, other}


def test_names_and_lists_that_are_not_of_this_authority_are_refused(tmp_path: Path) -> None:
    mine, other = (make_authority(tmp_path / name, name=name) for name in ("mine", "other"))
    with pytest.raises(InputError, match="has issued no identity of 'w'"):
        revoke(mine.parent, "w")
    serial(other.parent, "w", tmp_path / "w.pem")
    (mine.parent / LIST).write_bytes(revoke(other.parent, "w").read_bytes())
    with pytest.raises(InputError, match="is the list of another authority"):
        revoked(mine.parent / "controller.pem", mine.read_bytes())
    (mine.parent / LIST).write_text("nothing")
    with pytest.raises(InputError, match="is not a certificate revocation list"):
        revoked(mine.parent / "controller.pem", mine.read_bytes())
