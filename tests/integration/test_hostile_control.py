"""What is said to a controller or an agent over control ends in an answer or a named refusal, and leaves nothing."""

from __future__ import annotations

import logging

import pytest

from tests.support.full import IS_FULL
from tests.support.hostile_control import attack

MESSAGES = 1_000_000 if IS_FULL else 600
MOST_GROWTH_BYTES = 64 << 20
"""Of the second half of a long attack, which makes and forgets thousands of conversations."""


@pytest.mark.timeout(3600 if IS_FULL else 240)
@pytest.mark.parametrize("side", ["controller", "agent"])
def test_hostile_messages_are_refused_by_name(side: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    ends, memory = attack(side, MESSAGES)
    assert ends
    assert not [end for end in ends if "internal" in end]
    assert not IS_FULL or max(memory[-5:]) - max(memory[:5]) < MOST_GROWTH_BYTES
