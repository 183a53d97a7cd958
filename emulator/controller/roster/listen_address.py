"""Where agents of other machines dial in, and what they must know to be let in."""

from __future__ import annotations

from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import TYPE_CHECKING

import grpc

from emulator.control.wire.tls import TlsFiles
from emulator.errors import HostError, InputError, PlanError
from emulator.topology.model import Topology
from emulator.units import digits

if TYPE_CHECKING:
    from emulator.control.certificates.signature import Signer

UNIX = "unix:"


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """Where to listen for agents.

    Attributes:
        target: HOST:PORT or unix:PATH.
        token: what they must know; None only for a Unix socket, which files protect, or with certificates.
        tls: of the server; None: the stream is readable on its way.
    """

    target: str
    token: str | None = field(default=None, repr=False)
    tls: TlsFiles | None = None

    @property
    def is_unix(self) -> bool:
        """Whether it is a socket in the file system."""
        return self.target.startswith(UNIX)

    def signer(self) -> Signer | None:
        """What signs run descriptions; None without an identity.

        Raises:
            InputError: it cannot be used.
        """
        parts = None if self.tls is None else self.tls.parts()
        if self.tls is None or parts is None:
            return None
        from emulator.control.certificates.signature import Signer  # loads more than most runs need

        certificate, key, _ = parts
        try:
            return Signer.of(certificate, key)
        except InputError as error:
            raise InputError(f"{self.tls.identity}: {error}") from error

    def revoked(self) -> frozenset[int]:
        """Serial numbers of certificates that no longer count.

        Raises:
            InputError: the list beside the identity cannot be used.
        """
        parts = None if self.tls is None else self.tls.parts()
        if self.tls is None or self.tls.identity is None or parts is None:
            return frozenset()
        from emulator.control.certificates.identity import revoked  # loads more than most runs need

        return revoked(self.tls.identity, parts[2])

    def check(self, topology: Topology) -> None:
        """Control must not cross the device under test.

        Raises:
            PlanError: no token, no address, or one that the topology plays at.
        """
        if self.is_unix:
            return
        host, colon, port = self.target.rpartition(":")
        if not colon or not host or (number := digits(port)) is None or number > 65535:
            raise PlanError(f"--listen {self.target}: give HOST:PORT, for example 192.0.2.1:4790 or [2001:db8::1]:4790")
        if self.token is None and not (self.tls is not None and self.tls.is_mutual):
            raise PlanError(
                "--listen on a network needs --identity FILE, or a token: --token-file FILE, or CHARKHA_TOKEN"
            )
        if _numeric(host) in {_numeric(address) for address in (*topology.addresses, *topology.alternates)} - {None}:
            raise PlanError(f"--listen {host}: this is the address of a rank, and control must not cross the DUT")

    def add_to(self, server: grpc.aio.Server) -> int:
        """Open the port; returns its number.

        Raises:
            HostError: it cannot be opened.
            InputError: a certificate or key cannot be used.
        """
        try:
            if self.tls is None:
                return server.add_insecure_port(self.target)
            return server.add_secure_port(self.target, self.tls.server_credentials())
        except (RuntimeError, ValueError) as error:
            problem = "the port is in use, or the address is not one of this host's (see `ip address`)"
            also = ", or the certificate and key do not match" if self.tls else ""
            raise HostError(f"cannot listen at {self.target}: {problem}{also}") from error


def _numeric(host: str) -> object:
    try:
        return ip_address(host.strip("[]"))
    except ValueError:
        return None
