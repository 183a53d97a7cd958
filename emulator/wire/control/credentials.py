"""What protects the control stream: a shared token, and TLS files. Both sides take them the same way."""

from __future__ import annotations

import os
from pathlib import Path

from emulator.errors import InputError
from emulator.wire.control.tls import TlsFiles

TOKEN_VARIABLE = "CHARKHA_TOKEN"
SHORTEST_TOKEN = 16


def read_token(path: Path | None) -> str | None:
    """The token from a file, or from CHARKHA_TOKEN without one; None if there is neither.

    Raises:
        InputError: the file cannot be read, or the token is too short.
    """
    text = os.environ.get(TOKEN_VARIABLE) if path is None else _read(path)
    if text is None:
        return None
    if len(text) < SHORTEST_TOKEN:
        source = TOKEN_VARIABLE if path is None else path
        raise InputError(
            f"{source}: a token needs at least {SHORTEST_TOKEN} characters; make one with `openssl rand -hex 24`"
        )
    return text


def tls_files(cert: Path | None, key: Path | None, ca: Path | None) -> TlsFiles | None:
    """The certificate, key and authority; None without any of them."""
    return None if cert is None and key is None and ca is None else TlsFiles(cert, key, ca)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not text") from error
