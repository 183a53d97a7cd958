from pathlib import Path

import pytest

from emulator.control.wire.tls import TlsFiles
from emulator.errors import InputError

PEM = "-----BEGIN CERTIFICATE-----\n"


@pytest.fixture
def pem(tmp_path: Path) -> Path:
    path = tmp_path / "one.pem"
    path.write_text(PEM)
    return path


@pytest.mark.parametrize("has_certificate", [True, False])
def test_a_server_needs_certificate_and_key(pem: Path, has_certificate: bool) -> None:
    files = TlsFiles(certificate=pem) if has_certificate else TlsFiles(key=pem)
    with pytest.raises(InputError, match="needs both --tls-cert and --tls-key"):
        files.server_credentials()


@pytest.mark.parametrize("has_certificate", [True, False])
def test_a_client_certificate_and_its_key_come_together(pem: Path, has_certificate: bool) -> None:
    files = TlsFiles(certificate=pem, authority=pem) if has_certificate else TlsFiles(key=pem, authority=pem)
    with pytest.raises(InputError, match="give --tls-cert and --tls-key together"):
        files.channel_credentials()


@pytest.mark.parametrize("wrong", ["certificate", "key", "authority"])
def test_a_file_that_is_not_pem_is_named_on_both_sides(pem: Path, tmp_path: Path, wrong: str) -> None:
    der = tmp_path / "one.der"
    der.write_bytes(b"\x30\x82\x01\x0a")
    files = TlsFiles(**{"certificate": pem, "key": pem, "authority": pem} | {wrong: der})
    for credentials in (files.server_credentials, files.channel_credentials):
        with pytest.raises(InputError, match=rf"^{der}: is not a PEM file"):
            credentials()


@pytest.mark.parametrize("wrong", ["certificate", "key", "authority"])
def test_a_missing_file_is_named_on_both_sides(pem: Path, tmp_path: Path, wrong: str) -> None:
    absent = tmp_path / "absent.pem"
    files = TlsFiles(**{"certificate": pem, "key": pem, "authority": pem} | {wrong: absent})
    for credentials in (files.server_credentials, files.channel_credentials):
        with pytest.raises(InputError, match=rf"^{absent}: cannot be read \(No such file"):
            credentials()


def identity(*kinds: str) -> str:
    return "\n".join(f"-----BEGIN {kind}-----\nAAAA\n-----END {kind}-----" for kind in kinds)


def test_an_identity_is_all_three_and_mutual(tmp_path: Path) -> None:
    path = tmp_path / "a.pem"
    path.write_text(identity("PRIVATE KEY", "CERTIFICATE", "CERTIFICATE"))
    files = TlsFiles(identity=path)
    assert files.is_mutual
    assert files.server_credentials() is not None
    assert files.channel_credentials() is not None


@pytest.mark.parametrize(
    "kinds", [("CERTIFICATE",), ("PRIVATE KEY", "CERTIFICATE"), ("PRIVATE KEY", "PRIVATE KEY", "CERTIFICATE")]
)
def test_an_identity_that_is_not_whole_is_named(tmp_path: Path, kinds: tuple[str, ...]) -> None:
    path = tmp_path / "a.pem"
    path.write_text(identity(*kinds))
    with pytest.raises(
        InputError, match=rf"^{path}: an identity needs a key, its certificate and that of the authority"
    ):
        TlsFiles(identity=path).channel_credentials()


def test_only_certificates_of_both_sides_are_mutual(pem: Path) -> None:
    assert TlsFiles(pem, pem, pem).is_mutual
    assert not TlsFiles(pem, pem).is_mutual
    assert not TlsFiles(authority=pem).is_mutual
