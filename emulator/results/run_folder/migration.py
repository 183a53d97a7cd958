"""Manifests of older format versions are migrated when they are read; files are never edited."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from emulator.errors import ResultError

Document: TypeAlias = dict[str, Any]


def _keep_times_until_done(document: Document) -> Document:
    """Version 2 times collectives until the last arrival; what was reported of older runs stays true of them."""
    return document | {"format_version": 2, "cct_until": "last_done"}


MIGRATIONS: Mapping[int, Callable[[Document], Document]] = {1: _keep_times_until_done}
"""Format version → function that turns such a manifest into one of the next version."""


def migrated(document: Document, *, path: Path, newest: int) -> Document:
    """The manifest in the newest format version.

    Args:
        document: as stored.
        path: for errors.
        newest: version to migrate to.

    Raises:
        ResultError: it has no version, a newer one, or one that never existed.
    """
    version = document.get("format_version")
    if not isinstance(version, int) or isinstance(version, bool):
        raise ResultError("is not the manifest of a run (no format_version)", path=path)
    if version > newest:
        problem = f"has format version {version}, but this Charkha reads up to {newest}: use a newer one"
        raise ResultError(problem, path=path)
    for step in range(version, newest):
        if step not in MIGRATIONS:
            raise ResultError(f"has format version {version}, which never existed", path=path)
        document = MIGRATIONS[step](document)
    if version < 1 and version not in MIGRATIONS:
        raise ResultError(f"has format version {version}, which never existed", path=path)
    return document
