"""From options to how controller and agents find and trust each other."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from emulator.controller.listening import Listening
from emulator.errors import InputError, PlanError
from emulator.wire.control.tls import TlsFiles

TOKEN_VARIABLE = "CHARKHA_TOKEN"
SHORTEST_TOKEN = 16


def listening(args: argparse.Namespace) -> Listening | None:
    """Where agents dial in; None where all are local.

    Raises:
        InputError: the token is missing or cannot be used.
        PlanError: options of listening without it, or agents by hand that have nowhere to dial in.
    """
    if args.listen is None:
        if args.is_by_hand:
            raise PlanError("agents that are started by hand need an address to dial: --listen HOST:PORT or unix:PATH")
        for name in ("token_file", "tls_cert", "tls_key", "tls_ca"):
            if getattr(args, name) is not None:
                raise PlanError(f"--{name.replace('_', '-')} is for --listen")
        return None
    return Listening(args.listen, token(args), tls_files(args))


def token(args: argparse.Namespace) -> str | None:
    """The secret from `--token-file` or the environment; None where there is neither.

    Raises:
        InputError: the file cannot be read, or holds too short a secret.
    """
    path: Path | None = args.token_file
    said = os.environ.get(TOKEN_VARIABLE) if path is None else _read(path)
    if said is None:
        return None
    source = TOKEN_VARIABLE if path is None else path
    if len(said) < SHORTEST_TOKEN:
        raise InputError(
            f"{source}: a token has at least {SHORTEST_TOKEN} characters; make one with `openssl rand -hex 24`"
        )
    return said


def tls_files(args: argparse.Namespace) -> TlsFiles | None:
    """What `--tls-…` names; None where nothing does."""
    if args.tls_cert is None and args.tls_key is None and args.tls_ca is None:
        return None
    return TlsFiles(args.tls_cert, args.tls_key, args.tls_ca)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is no text") from error
