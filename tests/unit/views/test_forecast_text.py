"""What a run will move, in one line."""

from __future__ import annotations

import pytest

from emulator.planner.forecast import Forecast
from emulator.views.text.forecast_text import describe_forecast

MOVES = "plays 6 iterations (1 warm-up) of 3 MiB payload from 2 ranks (at most 2 MiB each) in 14 communications: 18 MiB"


@pytest.mark.parametrize(
    ("least_ns", "has_rates", "time"),
    [
        (3_000_000, True, "at least 18 ms at the rates of the ports"),
        (3_000_000, False, "at least 18 ms of compute, the ports have no rate"),
        (0, False, "no estimate of the time, the ports have no rate"),
    ],
)
def test_bytes_and_the_shortest_time_are_on_one_line(least_ns: int, has_rates: bool, time: str) -> None:
    found = Forecast(6, 1, 14, [1 << 20, 2 << 20], least_ns, has_rates)
    assert describe_forecast(found) == f"{MOVES} in total; {time}"
