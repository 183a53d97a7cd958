"""`charkha calibrate`: what it refuses."""

from __future__ import annotations

import pytest

from tests.support.command import refused


def test_too_few_ranks_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert "give a whole number of at least 2" in refused("calibrate", "--ranks", "1", capsys=capsys)
