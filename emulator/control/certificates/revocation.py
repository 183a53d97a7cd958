"""Identities that no longer count: a certificate revocation list (RFC 5280, 5) of their authority.

It is signed, so that it may be copied beside the identity of any controller, which refuses whom it names.
"""

from __future__ import annotations

from pathlib import Path

from cryptography import x509

from emulator.control.certificates.signature import NOT_READ
from emulator.errors import InputError
from emulator.host.files import read_bounded

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
