"""Identities are what their authority says, for as long as it says, and readable by their owner only."""

import ssl
import stat
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from emulator.annexes.launch.authority import AUTHORITY_DAYS, Issued, issue, make_authority
from emulator.control.certificates.roles import Role, roles_of
from emulator.errors import HostError, InputError

WEEK = timedelta(days=7)
NOW = datetime(2030, 5, 6, 7, 8, 9, tzinfo=UTC)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    make_authority(tmp_path / "authority", name="lab 3", now=NOW)
    return tmp_path / "authority"


def parts(issued: Issued) -> tuple[x509.Certificate, x509.Certificate]:
    own, authority = x509.load_pem_x509_certificates(issued.path.read_bytes())
    return own, authority


def test_a_controller_is_a_server_at_its_addresses(folder: Path) -> None:
    issued = issue(
        folder, "c", role=Role.CONTROLLER, addresses=["192.0.2.1", "[2001:db8::1]", "lab.test"], valid=WEEK, now=NOW
    )
    own, authority = parts(issued)
    own.verify_directly_issued_by(authority)
    names = own.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.IPAddress) == [ip_address("192.0.2.1"), ip_address("2001:db8::1")]
    assert names.get_values_for_type(x509.DNSName) == ["lab.test"]
    assert roles_of(names.get_values_for_type(x509.UniformResourceIdentifier)) == [Role.CONTROLLER]
    usage = own.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [ExtendedKeyUsageOID.SERVER_AUTH]
    assert own.not_valid_before_utc < NOW < own.not_valid_after_utc == issued.expires == NOW + WEEK
    assert authority.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value == "lab 3"


def test_an_agent_can_be_no_server(folder: Path) -> None:
    own, _ = parts(issue(folder, "server1", role=Role.AGENT, valid=WEEK, now=NOW))
    usage = own.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    assert own.extensions.get_extension_for_class(x509.BasicConstraints).value.ca is False


def test_the_files_are_what_tls_reads_and_nobody_else_may(folder: Path) -> None:
    issued = issue(folder, "server1", role=Role.AGENT, valid=WEEK)
    ssl.create_default_context().load_cert_chain(issued.path)
    for path in (issued.path, folder / "authority.key"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_nothing_is_overwritten(folder: Path) -> None:
    issue(folder, "server1", role=Role.AGENT, valid=WEEK, now=NOW)
    with pytest.raises(InputError, match=r"server1\.pem already exists"):
        issue(folder, "server1", role=Role.AGENT, valid=WEEK, now=NOW)
    with pytest.raises(InputError, match=r"authority\.key already exists"):
        make_authority(folder, name="again")


@pytest.mark.parametrize(
    ("name", "role", "addresses", "valid", "says"),
    [
        ("c", Role.CONTROLLER, (), WEEK, "a controller needs --address"),
        ("c", Role.CONTROLLER, ("192.0.2.1:4790",), WEEK, "without a port"),
        ("../c", Role.AGENT, (), WEEK, "is not a name for a certificate"),
        ("c" * 65, Role.AGENT, (), WEEK, "is not a name for a certificate"),
        ("c\n", Role.AGENT, (), WEEK, "is not a name for a certificate"),
        ("c", Role.AGENT, (), timedelta(days=AUTHORITY_DAYS + 1), "the authority in .* expires on 2040-"),
    ],
)
def test_what_makes_no_sense_is_refused(
    folder: Path, name: str, role: Role, addresses: tuple[str, ...], valid: timedelta, says: str
) -> None:
    with pytest.raises(InputError, match=says):
        issue(folder, name, role=role, addresses=addresses, valid=valid, now=NOW)


def test_an_authority_that_is_not_there_or_not_whole_is_named(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(InputError, match=r"there is no authority in .*charkha agent certs init"):
        issue(tmp_path, "a", role=Role.AGENT, valid=WEEK)
    (folder / "authority.key").write_text("-----BEGIN NOTHING-----\n")
    with pytest.raises(InputError, match=r"the authority in .* cannot be read"):
        issue(folder, "a", role=Role.AGENT, valid=WEEK)


def test_a_folder_that_cannot_be_made_is_the_hosts_lack(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(HostError, match="cannot be created"):
        make_authority(tmp_path / "file" / "authority", name="a")
