"""Identities that no longer count: a certificate revocation list (RFC 5280, 5) of their authority.

It is signed, so that it may be copied beside the identity of any controller, which refuses whom it names.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from emulator.control.certificates.authority import AUTHORITY_DAYS, ISSUED, open_authority
from emulator.control.certificates.signature import NOT_READ
from emulator.errors import InputError
from emulator.host.files import write_text

LIST = "authority.crl"


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
    for serial in sorted(serials | (_listed(path, authority) if path.exists() else frozenset())):
        entry = x509.RevokedCertificateBuilder(serial, begin).build()
        builder = builder.add_revoked_certificate(entry)
    content = builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)
    write_text(path, content.decode("ascii"))
    return path


def revoked(identity: Path, authority: bytes) -> frozenset[int]:
    """Serial numbers that the list beside an identity names; none without a list.

    Args:
        identity: file of the controller.
        authority: its certificate, PEM.

    Raises:
        InputError: the list cannot be read, or is not one of the authority.
    """
    path = identity.parent / LIST
    return _listed(path, x509.load_pem_x509_certificate(authority)) if path.exists() else frozenset()


def serial_of(certificate: bytes) -> int:
    """Serial number of a certificate, PEM."""
    return x509.load_pem_x509_certificate(certificate).serial_number


def _issued(folder: Path, name: str) -> list[x509.Certificate]:
    """Certificates of a name; those issued before there was a record are known if their file is still there."""
    found = []
    for path in (folder / ISSUED, folder / f"{name}.pem"):
        if path.exists():
            try:
                found += x509.load_pem_x509_certificates(path.read_bytes())
            except (OSError, *NOT_READ) as error:
                raise InputError(f"{path}: cannot be read ({error})") from error
    return [one for one in found if _name_of(one) == name and one.issuer != one.subject]


def _name_of(certificate: x509.Certificate) -> str | bytes:
    return certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value


def _listed(path: Path, authority: x509.Certificate) -> frozenset[int]:
    try:
        found = x509.load_pem_x509_crl(path.read_bytes())
        is_signed = found.is_signature_valid(authority.public_key())  # type: ignore[arg-type]  # any key may be wrong
    except (OSError, *NOT_READ) as error:
        raise InputError(
            f"{path}: is not a certificate revocation list ({error}): charkha agent certs revoke"
        ) from error
    if not is_signed:
        raise InputError(f"{path}: is the list of another authority: copy that of your own")
    return frozenset(one.serial_number for one in found)
