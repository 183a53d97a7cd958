"""What an identity file says of its holder, checked before anybody is called, and identities that no longer count.

These are in a certificate revocation list (RFC 5280, 5) of their authority. It is signed, so that it may be copied
beside the identity of any controller, which refuses whom it names.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509

from emulator.control.certificates.roles import Role, roles_of
from emulator.control.certificates.signature import NOT_READ
from emulator.errors import InputError
from emulator.host.files import MOST_SECRET_BYTES, read_bounded

_READ_BY_OTHERS = 0o004


def check_identity(path: Path, role: Role) -> None:
    """Refuse an identity that the other side would refuse, or whose key everybody on this machine can read.

    Raises:
        InputError: it cannot be read, has another role, or is not valid now.
    """
    try:
        is_open = path.stat().st_mode & _READ_BY_OTHERS
        certificate = x509.load_pem_x509_certificates(read_bounded(path, MOST_SECRET_BYTES))[0]
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    except NOT_READ as error:
        raise InputError(f"{path}: is not an identity: charkha agent certs issue") from error
    roles = roles_of(names.get_values_for_type(x509.UniformResourceIdentifier))
    if role not in roles:
        given = " and ".join(roles) or "nobody"
        raise InputError(f"{path}: is the identity of {given}, not of {role}: charkha agent certs issue --role {role}")
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if not begin <= datetime.now(UTC) <= end:
        raise InputError(
            f"{path}: is valid from {begin:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M} UTC, not now: issue a new one, or"
            " set the clock"
        )
    if is_open:
        raise InputError(f"{path}: every user of this machine can read its key: chmod o-r {path}")


LIST = "authority.crl"


def listed(path: Path, authority: x509.Certificate) -> frozenset[int]:
    """Serial numbers on a list of an authority.

    Raises:
        InputError: it cannot be read, or is not one of the authority.
    """
    try:
        found = x509.load_pem_x509_crl(read_bounded(path))
        is_signed = found.is_signature_valid(authority.public_key())  # type: ignore[arg-type]  # any key may be wrong
    except (OSError, *NOT_READ) as error:
        raise InputError(
            f"{path}: is not a certificate revocation list ({error}): charkha agent certs revoke"
        ) from error
    if not is_signed:
        raise InputError(f"{path}: is the list of another authority: copy that of your own")
    return frozenset(one.serial_number for one in found)


def revoked(identity: Path, authority: bytes) -> frozenset[int]:
    """Serial numbers that the list beside an identity names; none without a list.

    Args:
        identity: file of the controller.
        authority: its certificate, PEM.

    Raises:
        InputError: the list cannot be read, or is not one of the authority.
    """
    path = identity.parent / LIST
    return listed(path, x509.load_pem_x509_certificate(authority)) if path.exists() else frozenset()


def serial_of(certificate: bytes) -> int:
    """Serial number of a certificate, PEM."""
    return x509.load_pem_x509_certificate(certificate).serial_number
