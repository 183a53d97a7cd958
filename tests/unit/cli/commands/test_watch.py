"""`charkha watch`: what it refuses before it connects."""

from __future__ import annotations

import pytest

from tests.support.command import refused


@pytest.mark.parametrize("run_id", ["a/b", "+", "#"])
def test_a_run_id_cannot_be_a_pattern(run_id: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert f"--run {run_id}: " in refused("watch", "mqtt://localhost", "--run", run_id, capsys=capsys)


@pytest.mark.parametrize("url", ["http://localhost", "mqtt://", "mqtt://user:secret@localhost"])
def test_a_wrong_url_is_refused(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "secret" not in refused("watch", url, capsys=capsys)
