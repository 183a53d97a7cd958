"""An authority for the control stream of one test bed: identities that it issues and revokes, and tokens.

An identity is one PEM file: key, certificate, and the authority's certificate. Keys are of the curve P-256, as RFC 8446
requires everybody to know it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import jwt
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from emulator.control.certificates.identity import LIST, listed
from emulator.control.certificates.roles import Role, role_uri
from emulator.control.certificates.signature import NOT_READ
from emulator.control.certificates.tokens import ALGORITHM, check_secret
from emulator.errors import HostError, InputError
from emulator.host.files import MOST_SECRET_BYTES, read_bounded, write_secret, write_text

CERTIFICATE, KEY = "authority.pem", "authority.key"
ISSUED = "authority.issued"
"""Certificates of all identities, without keys."""
AUTHORITY_DAYS = 3650
CLOCK_SLACK = timedelta(minutes=5)
"""Certificates are valid from so long ago: clocks of machines differ."""
_LONGEST_NAME = 64
"""Characters of a common name (RFC 5280, ub-common-name)."""


@dataclass(frozen=True, slots=True)
class Issued:
    """An identity file and what it says."""

    path: Path
    name: str
    role: Role
    expires: datetime


def make_authority(folder: Path, *, name: str, now: datetime | None = None) -> Path:
    """Make the key and certificate of an authority in a folder; returns the certificate.

    Raises:
        InputError: there is one already, or the name does not fit.
        HostError: the folder cannot be written.
    """
    begin = (now or datetime.now(UTC)) - CLOCK_SLACK
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, checked_name(name))])
    certificate = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(begin + timedelta(days=AUTHORITY_DAYS))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise HostError(f"{folder}: cannot be created ({error.strerror})") from error
    write_secret(folder / KEY, _key_pem(key))
    (folder / CERTIFICATE).write_bytes(certificate.public_bytes(Encoding.PEM))
    return folder / CERTIFICATE


def issue(
    folder: Path,
    name: str,
    *,
    role: Role,
    addresses: Sequence[str] = (),
    valid: timedelta,
    out: Path | None = None,
    now: datetime | None = None,
) -> Issued:
    """Issue an identity.

    Args:
        folder: of the authority.
        name: of the agent, as the topology has it; of the controller or person.
        role: what it may do.
        addresses: IP addresses and host names of the holder: a controller needs those that agents connect to.
        valid: for how long.
        out: the file; None: `<name>.pem` in the folder.
        now: None: this moment.

    Raises:
        InputError: no authority, a file that exists, a controller without an address, more days than it is valid.
        HostError: the file cannot be written.
    """
    authority, authority_key = open_authority(folder)
    begin = (now or datetime.now(UTC)) - CLOCK_SLACK
    expires = begin + CLOCK_SLACK + valid
    if expires > authority.not_valid_after_utc:
        raise InputError(
            f"the authority in {folder} expires on {authority.not_valid_after_utc:%Y-%m-%d}: give fewer --days"
        )
    if role is Role.CONTROLLER and not addresses:
        raise InputError("a controller needs --address HOST, the address or host name that agents connect to")
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, checked_name(name))])
    names = [x509.UniformResourceIdentifier(role_uri(role)), *map(_general_name, addresses)]
    purpose = ExtendedKeyUsageOID.SERVER_AUTH if role is Role.CONTROLLER else ExtendedKeyUsageOID.CLIENT_AUTH
    certificate = (
        x509.CertificateBuilder(authority.subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(expires)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    path = folder / f"{name}.pem" if out is None else out
    write_secret(path, _key_pem(key) + certificate.public_bytes(Encoding.PEM) + authority.public_bytes(Encoding.PEM))
    try:
        with (folder / ISSUED).open("ab") as record:
            record.write(certificate.public_bytes(Encoding.PEM))
    except OSError as error:
        raise HostError(f"{folder / ISSUED}: cannot be written ({error.strerror})") from error
    return Issued(path, name, role, expires)


def revoke(folder: Path, name: str, *, now: datetime | None = None) -> Path:
    """Revoke every identity of a name that an authority has issued so far; returns the list.

    Raises:
        InputError: there is no authority, it has issued no such identity, or its list cannot be read.
        HostError: the list cannot be written.
    """
    authority, key = open_authority(folder)
    begin = now or datetime.now(UTC)
    serials = {one.serial_number for one in _issued(folder, name)}
    if not serials:
        raise InputError(f"the authority in {folder} has issued no identity of {name!r}")
    path = folder / LIST
    builder = x509.CertificateRevocationListBuilder(authority.subject, begin, begin + timedelta(days=AUTHORITY_DAYS))
    for serial in sorted(serials | (listed(path, authority) if path.exists() else frozenset())):
        entry = x509.RevokedCertificateBuilder(serial, begin).build()
        builder = builder.add_revoked_certificate(entry)
    content = builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)
    write_text(path, content.decode("ascii"))
    return path


def _issued(folder: Path, name: str) -> list[x509.Certificate]:
    """Certificates of a name; those issued before there was a record are known if their file is still there."""
    found = []
    for path in (folder / ISSUED, folder / f"{name}.pem"):
        if path.exists():
            try:
                found += x509.load_pem_x509_certificates(read_bounded(path))
            except (OSError, *NOT_READ) as error:
                raise InputError(f"{path}: cannot be read ({error})") from error
    return [one for one in found if _name_of(one) == name and one.issuer != one.subject]


def _name_of(certificate: x509.Certificate) -> str | bytes:
    return certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value


def issue_token(secret: str, name: str, *, role: Role, valid: timedelta, now: datetime | None = None) -> str:
    """A token for somebody of a role, good for so long.

    Raises:
        InputError: the secret is too short, or the name does not fit.
    """
    check_secret(secret)
    checked_name(name)
    begin = now or datetime.now(UTC)
    claims = {"sub": name, "role": role.value, "iat": begin, "exp": begin + valid}
    return jwt.encode(claims, secret, algorithm=ALGORITHM)


def open_authority(folder: Path) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    """Certificate and key of the authority in a folder.

    Raises:
        InputError: there is none, or it cannot be read.
    """
    try:
        certificate = x509.load_pem_x509_certificate(read_bounded(folder / CERTIFICATE, MOST_SECRET_BYTES))
        _ = certificate.subject, certificate.not_valid_after_utc  # decoded only when they are read
        key = load_pem_private_key(read_bounded(folder / KEY, MOST_SECRET_BYTES), None)
    except FileNotFoundError as error:
        raise InputError(f"there is no authority in {folder}: charkha agent certs init {folder}") from error
    except (OSError, *NOT_READ) as error:
        raise InputError(f"the authority in {folder} cannot be read ({error})") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise InputError(f"{folder / KEY}: is not the key of an authority made with charkha agent certs init")
    return certificate, key


def checked_name(name: str) -> str:
    """A name of an identity or token, which is also that of its file.

    Raises:
        InputError: it does not fit.
    """
    if not 0 < len(name) <= _LONGEST_NAME or not name.isprintable() or "/" in name or name.startswith("."):
        raise InputError(
            f"{name[:80]!r} is not a name for a certificate: use up to {_LONGEST_NAME} characters without /"
        )
    return name


def _general_name(address: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(address.strip("[]")))
    except ValueError:
        if not address.isascii() or not address.replace("-", "").replace(".", "").isalnum():
            raise InputError(f"--address {address!r}: give an IP address or a host name, without a port") from None
        return x509.DNSName(address)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
