"""Transport security of the control stream: PEM files and gRPC's own credentials."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import grpc

from emulator.errors import InputError


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files: own certificate and its key, and the authority that the other side's certificate must come from."""

    certificate: Path | None = None
    key: Path | None = None
    authority: Path | None = None

    def server_credentials(self) -> grpc.ServerCredentials:
        """For the side that listens; with an authority it lets in only who has a certificate of it.

        Raises:
            InputError: a file is missing, cannot be read, or is not a PEM file.
        """
        if self.certificate is None or self.key is None:
            raise InputError("TLS needs both --tls-cert and --tls-key here")
        return grpc.ssl_server_credentials(
            [(_read_pem(self.key), _read_pem(self.certificate))],
            root_certificates=None if self.authority is None else _read_pem(self.authority),
            require_client_auth=self.authority is not None,
        )

    def channel_credentials(self) -> grpc.ChannelCredentials:
        """For the side that dials; without an authority the system's are trusted.

        Raises:
            InputError: a file cannot be read, or is not a PEM file; a certificate comes without its key.
        """
        if (self.certificate is None) != (self.key is None):
            raise InputError("--tls-cert and --tls-key come together")
        return grpc.ssl_channel_credentials(
            root_certificates=None if self.authority is None else _read_pem(self.authority),
            private_key=None if self.key is None else _read_pem(self.key),
            certificate_chain=None if self.certificate is None else _read_pem(self.certificate),
        )


def _read_pem(path: Path) -> bytes:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    if b"-----BEGIN " not in content:
        raise InputError(f"{path}: is not a PEM file (it has no BEGIN line)")
    return content
