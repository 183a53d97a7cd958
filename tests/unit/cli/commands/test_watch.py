"""`charkha runs watch`: what it refuses before it connects."""

import pytest

from tests.support.command import refused


@pytest.mark.parametrize("url", ["http://localhost", "mqtt://", "mqtt://user:secret@localhost"])
def test_a_wrong_url_is_refused(url: str) -> None:
    assert "secret" not in refused("runs", "watch", url)
