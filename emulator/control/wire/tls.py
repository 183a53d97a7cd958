"""Transport security of the control stream: PEM files and gRPC's own credentials."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import grpc

from emulator.errors import InputError
from emulator.host.files import MOST_SECRET_BYTES, read_bounded

_BLOCK = re.compile(rb"-----BEGIN [A-Z ]+-----[^-]+-----END [A-Z ]+-----", re.DOTALL)


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files: own certificate and its key, and the authority that the other side's certificate must come from."""

    certificate: Path | None = None
    key: Path | None = None
    authority: Path | None = None
    identity: Path | None = None
    """One file with all three, as `charkha agent certs issue` writes it, in place of them."""

    @property
    def is_mutual(self) -> bool:
        """Whether each side demands a certificate of the other, and has one."""
        return self.identity is not None or None not in (self.certificate, self.key, self.authority)

    def parts(self) -> tuple[bytes, bytes, bytes] | None:
        """Certificate, key and authority of the identity, PEM; None without one.

        Raises:
            InputError: it cannot be read, or is not an identity.
        """
        return None if self.identity is None else _parts(self.identity, _read_pem(self.identity))

    def server_credentials(self) -> grpc.ServerCredentials:
        """For the side that listens; with an authority it lets in only who has a certificate of it.

        Raises:
            InputError: a file is missing, cannot be read, or is not a PEM file.
        """
        certificate, key, authority = self._read()
        if certificate is None or key is None:
            raise InputError("TLS needs both --tls-cert and --tls-key")
        return grpc.ssl_server_credentials(
            [(key, certificate)], root_certificates=authority, require_client_auth=authority is not None
        )

    def channel_credentials(self) -> grpc.ChannelCredentials:
        """For the side that dials; without an authority the system's are trusted.

        Raises:
            InputError: a file cannot be read, or is not a PEM file; a certificate comes without its key.
        """
        if (self.certificate is None) != (self.key is None):
            raise InputError("give --tls-cert and --tls-key together")
        certificate, key, authority = self._read()
        return grpc.ssl_channel_credentials(root_certificates=authority, private_key=key, certificate_chain=certificate)

    def _read(self) -> tuple[bytes | None, bytes | None, bytes | None]:
        """Certificate, key and authority."""
        if (parts := self.parts()) is not None:
            return parts
        files = self.certificate, self.key, self.authority
        certificate, key, authority = (None if file is None else _read_pem(file) for file in files)
        return certificate, key, authority


def _parts(path: Path, content: bytes) -> tuple[bytes, bytes, bytes]:
    """Certificate, key and authority of an identity file."""
    blocks = [match[0] + b"\n" for match in _BLOCK.finditer(content)]
    keys = [block for block in blocks if b"PRIVATE KEY-----" in block]
    certificates = [block for block in blocks if b"-----BEGIN CERTIFICATE-----" in block]
    if (len(keys), len(certificates)) != (1, 2):
        raise InputError(
            f"{path}: an identity needs a key, its certificate and that of the authority: use charkha agent certs issue"
        )
    return certificates[0], keys[0], certificates[1]


def _read_pem(path: Path) -> bytes:
    try:
        content = read_bounded(path, MOST_SECRET_BYTES)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    if b"-----BEGIN " not in content:
        raise InputError(f"{path}: is not a PEM file (it has no BEGIN line)")
    return content
