"""Every warning has a name of its own, and docs/traces.md explains it."""

from pathlib import Path

import pytest

from emulator.trace.meaning import warnings

NAMES = [value for name, value in vars(warnings).items() if name.isupper()]
DOCS = Path(__file__).parents[3] / "docs" / "traces.md"


@pytest.mark.parametrize("name", NAMES)
def test_the_documentation_explains_the_warning(name: str) -> None:
    assert name in " ".join(DOCS.read_text(encoding="utf-8").split())


def test_no_two_warnings_share_a_name() -> None:
    assert len(set(NAMES)) == len(NAMES) > 10
