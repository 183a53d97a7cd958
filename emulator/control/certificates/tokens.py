"""Short-lived tokens: what a secret's owner says of a holder, until when, as JSON Web Tokens (RFC 7519, HS256).

On the control stream only header and claims of a token travel; its last part is a key that both sides prove to have
(emulator/control/authentication). Who reads or receives the stream cannot use it. Over HTTPS it is a bearer token.
"""

from __future__ import annotations

import base64
import hmac
from dataclasses import dataclass
from datetime import timedelta

import jwt

from emulator.control.certificates.roles import Role
from emulator.errors import InputError

CLOCK_SLACK = timedelta(seconds=60)
"""A token is good for so long after its end: clocks of machines differ."""
ALGORITHM = "HS256"
SHORTEST_SECRET_BYTES = 32
"""RFC 7518, 3.2: as long as the hash."""


@dataclass(frozen=True, slots=True)
class Holder:
    """Whom a token is for."""

    name: str
    role: Role


def holder_of(token: str, secret: str) -> Holder:
    """Whom a whole token is for.

    Raises:
        InputError: it was not made with the secret, has expired, or lacks a claim.
    """
    check_secret(secret)
    try:
        claims = jwt.decode(
            token,
            secret,
            algorithms=[ALGORITHM],
            leeway=CLOCK_SLACK,
            options={"require": ["sub", "role", "exp"]},
        )
        return Holder(claims["sub"], Role(claims["role"]))
    except jwt.ExpiredSignatureError as error:
        raise InputError("the token has expired: charkha agent certs token") from error
    except (jwt.InvalidTokenError, ValueError) as error:
        raise InputError("the token is not one of the controller's secret") from error


def check_secret(secret: str) -> None:
    """InputError if a secret is too short."""
    if len(secret.encode()) < SHORTEST_SECRET_BYTES:
        raise InputError(f"tokens need a secret of at least {SHORTEST_SECRET_BYTES} characters: openssl rand -hex 24")


def key_of_claims(claims: str, secret: str, agent: str) -> bytes:
    """The key that an agent has whose token has this header and these claims.

    Raises:
        InputError: the claims are not those of a token for this agent, or have expired.
    """
    digest = hmac.digest(secret.encode(), claims.encode(errors="replace"), "sha256")
    key = base64.urlsafe_b64encode(digest).rstrip(b"=")
    holder = holder_of(f"{claims}.{key.decode()}", secret)
    if holder != Holder(agent, Role.AGENT):
        raise InputError(f"the token belongs to {holder.role} {holder.name}, not to agent {agent}")
    return key
