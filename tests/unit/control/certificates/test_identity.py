"""An identity that the other side would refuse is refused where it lies."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from emulator.annexes.launch.authority import issue, make_authority
from emulator.control.certificates.identity import check_identity
from emulator.control.certificates.roles import Role
from emulator.errors import InputError

DAY = timedelta(days=1)


def identity(folder: Path, *, issued: timedelta = timedelta()) -> Path:
    now = datetime.now(UTC) + issued
    make_authority(folder, name="lab", now=now)
    return issue(folder, "server1", role=Role.AGENT, valid=DAY, now=now).path


def test_its_holder_may_use_it(tmp_path: Path) -> None:
    check_identity(identity(tmp_path), Role.AGENT)


def test_another_role_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"is the identity of agent, not of controller: .* --role controller"):
        check_identity(identity(tmp_path), Role.CONTROLLER)


@pytest.mark.parametrize("issued", [-2 * DAY, DAY])
def test_it_must_be_valid_now(tmp_path: Path, issued: timedelta) -> None:
    with pytest.raises(InputError, match=r"is valid from .* UTC, not now: issue a new one"):
        check_identity(identity(tmp_path, issued=issued), Role.AGENT)


def test_everybody_must_not_read_its_key(tmp_path: Path) -> None:
    path = identity(tmp_path)
    path.chmod(0o644)
    with pytest.raises(InputError, match="every user of this machine can read its key: chmod o-r"):
        check_identity(path, Role.AGENT)


@pytest.mark.parametrize("content", [b"", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"])
def test_another_file_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.pem"
    with pytest.raises(InputError, match="cannot be read"):
        check_identity(path, Role.AGENT)
    path.write_bytes(content)
    with pytest.raises(InputError, match="is not an identity: charkha agent certs issue"):
        check_identity(path, Role.AGENT)
