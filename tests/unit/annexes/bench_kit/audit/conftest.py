from __future__ import annotations

import pytest

from tests.support.roce_capture import MTU, Conversation


@pytest.fixture
def talk() -> Conversation:
    """Two messages and their ACKs, all in order."""
    talk = Conversation()
    for _ in range(2):
        talk.write(3 * MTU + 5)
        talk.ack(messages=1)
    return talk
