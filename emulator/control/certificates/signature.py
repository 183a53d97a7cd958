"""Signatures of identities: over bytes, checked against an authority and a role (ECDSA, SHA-256)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key

from emulator.control.certificates.roles import Role, roles_of
from emulator.errors import InputError, RemoteProtocolError

NOT_READ = (ValueError, TypeError, LookupError, x509.ExtensionNotFound, x509.InvalidVersion, UnsupportedAlgorithm)
"""What the library raises on keys and certificates that are damaged, or of another kind."""
_ECDSA = ec.ECDSA(hashes.SHA256())


@dataclass(frozen=True, slots=True)
class Signer:
    """Signs with the key of an identity; `certificate` (DER) shows whose it is."""

    certificate: bytes
    _key: ec.EllipticCurvePrivateKey

    @classmethod
    def of(cls, certificate: bytes, key: bytes) -> Signer:
        """From the PEM blocks of an identity.

        Raises:
            InputError: they are none that `charkha agent certs issue` writes.
        """
        try:
            loaded = load_pem_private_key(key, None)
            own = x509.load_pem_x509_certificate(certificate)
        except NOT_READ as error:
            raise InputError(f"the identity cannot be used: {error}") from error
        if not isinstance(loaded, ec.EllipticCurvePrivateKey):
            raise InputError("the identity's key is not one of an elliptic curve: charkha agent certs issue")
        return cls(own.public_bytes(Encoding.DER), loaded)

    def sign(self, statement: bytes) -> bytes:
        """A signature over bytes."""
        return self._key.sign(statement, _ECDSA)


def check_signature(
    statement: bytes, signature: bytes, certificate: bytes, *, authority: bytes, role: Role, now: datetime | None = None
) -> str:
    """The name of the holder that signed the statement.

    Args:
        statement: the bytes.
        signature: made over them.
        certificate: of the signer, DER.
        authority: that must have issued it, PEM.
        role: that it must grant.
        now: None: this moment.

    Raises:
        RemoteProtocolError: it is not a signature of a holder of this role, over these bytes.
    """
    try:
        signer = x509.load_der_x509_certificate(certificate)
        signer.verify_directly_issued_by(x509.load_pem_x509_certificate(authority))
        key = signer.public_key()
        if not isinstance(key, ec.EllipticCurvePublicKey):
            raise RemoteProtocolError("its signature is not one of an elliptic curve")
        names = signer.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        roles = roles_of(names.get_values_for_type(x509.UniformResourceIdentifier))
        key.verify(signature, statement, _ECDSA)
    except InvalidSignature as error:
        raise RemoteProtocolError("its signature is not that of its signer and authority") from error
    except NOT_READ as error:
        raise RemoteProtocolError("its signer cannot be read") from error
    if role not in roles:
        raise RemoteProtocolError(f"its signer is {' and '.join(roles) or 'nobody'}, not {role}")
    if not signer.not_valid_before_utc <= (now or datetime.now(UTC)) <= signer.not_valid_after_utc:
        raise RemoteProtocolError("the certificate of its signer is not valid now")
    return str(signer.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)[0].value)
