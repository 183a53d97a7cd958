"""A signature counts from a valid holder of the role, over these bytes, under this authority."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from emulator.annexes.launch.authority import issue, make_authority
from emulator.control.certificates.roles import Role
from emulator.control.certificates.signature import Signer, check_signature
from emulator.control.wire.tls import TlsFiles
from emulator.errors import InputError, RemoteProtocolError

DAY = timedelta(days=1)


def signer(folder: Path, role: Role, *, addresses: tuple[str, ...] = ("lab.test",)) -> tuple[Signer, bytes]:
    """Something that signs, and its authority."""
    if not folder.exists():
        make_authority(folder, name="lab")
    path = issue(folder, f"{role}-1", role=role, addresses=addresses, valid=DAY).path
    parts = TlsFiles(identity=path).parts()
    return Signer.of(parts[0], parts[1]), parts[2]


def check(one: Signer, authority: bytes, *, said: bytes = b"said", now: datetime | None = None) -> str:
    signature = one.sign(b"said")
    return check_signature(said, signature, one.certificate, authority=authority, role=Role.CONTROLLER, now=now)


def test_the_signer_is_named(tmp_path: Path) -> None:
    assert check(*signer(tmp_path / "a", Role.CONTROLLER)) == "controller-1"


def test_altered_bytes_another_authority_another_role_and_an_old_certificate_are_refused(tmp_path: Path) -> None:
    one, authority = signer(tmp_path / "a", Role.CONTROLLER)
    agent, _ = signer(tmp_path / "a", Role.AGENT)
    stranger, _ = signer(tmp_path / "b", Role.CONTROLLER)
    with pytest.raises(RemoteProtocolError, match="not that of its signer and authority"):
        check(one, authority, said=b"altered")
    with pytest.raises(RemoteProtocolError, match="not that of its signer and authority"):
        check(stranger, authority)
    with pytest.raises(RemoteProtocolError, match="its signer is agent, not controller"):
        check(agent, authority)
    with pytest.raises(RemoteProtocolError, match="is not valid now"):
        check(one, authority, now=datetime.now(UTC) + 2 * DAY)


@pytest.mark.parametrize("certificate", [b"", b"\x30\x03\x02\x01\x01"])
def test_what_is_no_certificate_is_refused(tmp_path: Path, certificate: bytes) -> None:
    one, authority = signer(tmp_path / "a", Role.CONTROLLER)
    with pytest.raises(RemoteProtocolError, match="its signer cannot be read"):
        check_signature(b"", one.sign(b""), certificate, authority=authority, role=Role.CONTROLLER)


def test_what_is_no_key_is_the_users_mistake() -> None:
    with pytest.raises(InputError, match="the identity cannot be used"):
        Signer.of(b"", b"")
