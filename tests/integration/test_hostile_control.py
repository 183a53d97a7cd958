"""What is said to a controller or an agent over control ends in an answer or a named refusal, and leaves nothing."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from emulator.control.wire.codec import decode_agent, decode_controller, encode_agent, encode_controller
from emulator.errors import RemoteProtocolError
from tests.support.full import IS_FULL
from tests.support.hostile_control import AGENT_VALUES, CONTROLLER_VALUES, Anything, attack

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


MADE: list[tuple[Callable[..., bytes], Callable[[bytes], Any], Callable[[Anything], Any]]] = [
    *((encode_agent, decode_agent, lambda any_, make=make: make(any_, 2, any_.number)) for make in AGENT_VALUES),
    *(
        (encode_controller, decode_controller, lambda any_, make=make: make(any_, any_.number, "127.0.0.1"))
        for make in CONTROLLER_VALUES
    ),
]


@pytest.mark.parametrize("number", range(len(MADE)))
def test_every_message_that_was_changed_is_read_or_refused_by_name(number: int) -> None:
    encode, decode, make = MADE[number]
    outcomes = set()
    for seed in range(100_000 if IS_FULL else 300):
        any_ = Anything(seed)
        try:
            decode(any_.damaged(encode(make(any_), 0)))
            outcomes.add("read")
        except RemoteProtocolError as error:
            outcomes.add(str(error))
    assert "read" in outcomes
    assert len(outcomes) > 1
    assert "" not in outcomes
