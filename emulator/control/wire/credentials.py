"""What protects the control stream: a shared token, and TLS files. Both sides take them the same way."""

from __future__ import annotations

from ipaddress import ip_address
from pathlib import Path

from emulator.control.authentication import TOKEN_VARIABLE, token_of_environment
from emulator.control.wire.tls import TlsFiles
from emulator.errors import InputError
from emulator.host.files import MOST_SECRET_BYTES, read_bounded

SHORTEST_TOKEN = 16


def read_token(path: Path | None) -> str | None:
    """The token from a file, or from CHARKHA_TOKEN without one; None if there is neither.

    Raises:
        InputError: the file cannot be read, or the token is too short.
    """
    given = token_of_environment()
    text = given if path is None else _read(path)
    if text is None:
        return None
    if len(text) < SHORTEST_TOKEN:
        source = TOKEN_VARIABLE if path is None else path
        raise InputError(
            f"{source}: a token needs at least {SHORTEST_TOKEN} characters; make one with `openssl rand -hex 24`"
        )
    return text


def is_issued(token: str) -> bool:
    """Whether it is a token from `charkha agent certs token`, or its claims, and not the secret itself."""
    return token.startswith("eyJ") and "." in token  # the header of a JSON Web Token, and what follows it


def key_and_claims(token: str) -> tuple[bytes, str]:
    """The key that the holder of a token or secret has, and what the other side must know to have it as well."""
    claims, _, key = token.rpartition(".") if is_issued(token) else ("", "", token)
    return key.encode(), claims


def tls_files(cert: Path | None, key: Path | None, ca: Path | None, identity: Path | None = None) -> TlsFiles | None:
    """The certificate, key and authority, or the identity that has all; None without any of them.

    Raises:
        InputError: an identity and other files as well.
    """
    files = (cert, key, ca)
    if identity is not None and files != (None, None, None):
        raise InputError("--identity contains certificate, key and authority: omit the --tls options")
    return None if files == (None, None, None) and identity is None else TlsFiles(*files, identity)


def require_protection(target: str, tls: TlsFiles | None, *, insecure: bool, option: str) -> None:
    """Control that leaves this machine needs certificates on both sides, unless the user goes without them.

    Args:
        target: HOST:PORT or unix:PATH, of `option`.
        tls: what there is.
        insecure: the user said so.
        option: for messages.

    Raises:
        InputError: it would not be protected.
    """
    host = target.rpartition(":")[0].strip("[]")
    is_here = target.startswith("unix:") or host == "localhost" or (_is_address(host) and ip_address(host).is_loopback)
    if not (is_here or insecure or (tls is not None and tls.is_mutual)):
        raise InputError(
            f"{option} {target}: control would leave this machine without certificates on both sides. Give --identity "
            "FILE (charkha agent certs issue), or --insecure: then anyone on that network can read the token, start "
            "traffic with your agents and alter results"
        )


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _read(path: Path) -> str:
    try:
        return read_bounded(path, MOST_SECRET_BYTES).decode("utf-8").strip()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not text") from error
