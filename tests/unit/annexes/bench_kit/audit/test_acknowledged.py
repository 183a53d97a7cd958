"""The oldest request that is open, as responses come."""

from collections.abc import Sequence

import pytest

from emulator.annexes.bench_kit.audit.tracking import Acknowledged

READ, ACK, RESPONSE = Acknowledged.expect_responses, Acknowledged.accept_before, Acknowledged.answer


@pytest.mark.parametrize(
    ("steps", "oldest", "accepted"),
    [
        pytest.param([(READ, 5, 8)], None, None, id="nothing is known before the first response"),
        pytest.param([(ACK, 10), (ACK, 7)], 10, 10, id="an acknowledgement closes everything before it"),
        pytest.param([(READ, 5, 8), (ACK, 10)], 5, 10, id="and no read"),
        pytest.param([(READ, 5, 8), (RESPONSE, 5)], 6, 6, id="a read closes packet by packet, and all before it"),
        pytest.param([(READ, 5, 8), (RESPONSE, 5), (RESPONSE, 6)], 7, 7, id="up to the second"),
        pytest.param([(READ, 5, 8), *((RESPONSE, psn) for psn in (5, 6, 7))], 8, 8, id="up to the last"),
        pytest.param(
            [(READ, 5, 8), (READ, 8, 9), *((RESPONSE, psn) for psn in (5, 7, 8))],
            6,
            9,
            id="a lost one keeps it open",
        ),
        pytest.param(
            [(READ, 5, 8), (READ, 8, 9), *((RESPONSE, psn) for psn in (5, 7, 8, 6))], 9, 9, id="until it comes"
        ),
        pytest.param([(READ, 8, 9), (READ, 5, 8), (ACK, 20)], 5, 20, id="the older read counts in any order"),
        pytest.param(
            [(READ, 5, 7), *((RESPONSE, psn) for psn in (5, 6, 5, 6))], 7, 7, id="a repeated response changes nothing"
        ),
    ],
)
def test_the_oldest_open_request(steps: Sequence[tuple], oldest: int | None, accepted: int | None) -> None:
    state = Acknowledged()
    for step, *psns in steps:
        step(state, *psns)
    assert (state.oldest, state.accepted) == (oldest, accepted)
