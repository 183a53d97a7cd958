"""Requests: of a Poisson process, and those of a file that are played."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from emulator.errors import PlanError
from emulator.trace.synthetic.inference.inference import Inference
from emulator.trace.synthetic.inference.requests import Request, played_requests, poisson_requests

POISSON = Inference(rate=50.0, requests=4000, input_length=1000.0, output_length=200.0)
FILE = Inference(trace=Path("x"))


def test_gaps_and_lengths_have_their_means() -> None:
    found = list(poisson_requests(POISSON))
    assert len(found) == 4000
    assert found[0].at_micros == 0
    assert found[-1].at_micros / 3999 == pytest.approx(1e6 / 50, rel=0.05)
    assert sum(one.input_length for one in found) / 4000 == pytest.approx(1000, rel=0.05)
    assert sum(one.output_length for one in found) / 4000 == pytest.approx(200, rel=0.05)
    assert min(one.input_length for one in found) >= 1


def test_a_seed_gives_the_same_requests() -> None:
    assert list(poisson_requests(POISSON)) == list(poisson_requests(POISSON))
    assert list(poisson_requests(POISSON)) != list(poisson_requests(replace(POISSON, seed=1)))


def test_a_file_is_played_from_its_first_request_on_at_the_speed_asked_for() -> None:
    found = [Request(at, 10, 1) for at in (3_000_000, 3_000_500, 4_000_000)]
    assert [one.at_micros for one in played_requests(FILE, found)] == [0, 500, 1_000_000]
    fast = replace(FILE, speed=4.0, requests=2)
    assert [one.at_micros for one in played_requests(fast, found)] == [0, 125]


def test_files_that_cannot_be_played_are_refused() -> None:
    with pytest.raises(PlanError, match="no request"):
        played_requests(FILE, [])
    with pytest.raises(PlanError, match="limit of a trace"):
        played_requests(replace(FILE, speed=1e-9), [Request(0, 1, 1), Request(10**6, 1, 1)])
    with pytest.raises(PlanError, match="limit of a trace"):
        list(poisson_requests(replace(POISSON, rate=1e-9)))
