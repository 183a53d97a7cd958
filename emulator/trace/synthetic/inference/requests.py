"""Requests of inference: when they arrive, how long they are, and which blocks they share with others."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from emulator.errors import PlanError
from emulator.trace.meaning.program import MAX_MICROS
from emulator.trace.synthetic.inference.inference import MAX_REQUESTS, Inference
from emulator.units import US_PER_S


@dataclass(frozen=True, slots=True)
class Request:
    """A request.

    Attributes:
        at_micros: arrival, µs after the first request.
        input_length, output_length: tokens.
        blocks: names of the blocks of the prompt: equal names are equal prefixes. Empty: it shares none.
    """

    at_micros: int
    input_length: int
    output_length: int
    blocks: Sequence[int] = ()


def poisson_requests(job: Inference) -> Iterator[Request]:
    """Requests of a Poisson process, with exponentially distributed lengths of at least one token; the first at 0.

    Raises:
        PlanError: they take longer than a trace can say.
    """
    rng = np.random.default_rng(job.seed)
    assert job.rate is not None
    at_seconds = 0.0
    for number in range(job.poisson_requests):
        gap, prompt, answer = (-math.log1p(-draw) for draw in rng.random(3).tolist())
        at_seconds += gap / job.rate if number else 0.0
        at_micros = _checked(round(at_seconds * US_PER_S))
        yield Request(at_micros, _tokens(prompt * job.input_length), _tokens(answer * job.output_length))


def played_requests(job: Inference, found: Sequence[Request]) -> list[Request]:
    """The requests of a file that are played, from time 0 on, at the speed of the job.

    Raises:
        PlanError: there are none, or too many, or they take longer than a trace can say.
    """
    chosen = found[: job.requests]
    if not chosen:
        raise PlanError("there is no request in the file")
    if len(chosen) > MAX_REQUESTS:
        raise PlanError(f"{len(chosen)} requests: at most {MAX_REQUESTS} are supported")
    first = chosen[0].at_micros
    _checked(round((chosen[-1].at_micros - first) / job.speed))
    return [replace(one, at_micros=round((one.at_micros - first) / job.speed)) for one in chosen]


def _tokens(drawn: float) -> int:
    return max(1, math.ceil(drawn))


def _checked(at_micros: int) -> int:
    if at_micros > MAX_MICROS:
        raise PlanError(f"a request would arrive after {at_micros:.3g} µs; the limit of a trace is {MAX_MICROS}")
    return at_micros
