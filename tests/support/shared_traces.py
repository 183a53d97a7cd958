"""Published traces that lie beside the project where it is developed; tests that need them skip where they are not."""

from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[3] / "shared"


def require_shared(*parts: str) -> Path:
    """The path of something under the shared folder; skips the calling test when it is absent."""
    path = SHARED.joinpath(*parts)
    if not path.exists():
        pytest.skip("published traces, which lie beside the project where it is developed")
    return path


def trace_path(name: str) -> Path:
    """The path of a published trace set; skips the calling test when it is absent."""
    folder, _, prefix = name.rpartition("/")
    if folder == "text-converted-8r":
        return require_shared("traces", folder) / prefix
    return require_shared("traces", *name.split("/"))
