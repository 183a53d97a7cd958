"""What a description of inference refuses, and what it says of itself."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from emulator.errors import PlanError
from emulator.trace.synthetic.inference.inference import Inference
from emulator.trace.synthetic.inference.models import ServedModel

JOB = Inference(prefill=2, prefill_tensor=4, decode=3, decode_tensor=8, rate=5.0)


def test_ranks_are_those_of_both_pools() -> None:
    assert JOB.ranks == 2 * 4 + 3 * 8


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"rate": None}, "give either a file of requests"),
        ({"trace": Path("x")}, "give either a file of requests"),
        ({"prefill_tensor": 3}, "prefill_tensor 3 neither divides the 8 key-value heads"),
        ({"decode": 0}, "decode is 0: it must be greater than 0"),
        ({"speed": float("inf")}, "speed is inf"),
        ({"requests": 1 << 31}, "at most 2147483647"),
    ],
)
def test_what_cannot_be_is_refused(change: dict[str, object], problem: str) -> None:
    with pytest.raises(PlanError, match=r".") as refused:
        replace(JOB, **change)  # type: ignore[arg-type]
    assert problem in str(refused.value)


def test_a_latent_cache_goes_with_any_tensor_parallelism() -> None:
    assert replace(JOB, model=ServedModel.DEEPSEEK_R1, decode_tensor=3).ranks == 17


def test_of_the_file_the_name_alone_is_written_down() -> None:
    assert replace(JOB, rate=None, trace=Path("/home/someone/chat.jsonl")).described()["trace"] == "chat.jsonl"
    assert "trace" not in JOB.described()


def test_a_prefill_is_shared_by_the_ranks_of_a_worker() -> None:
    alone = replace(JOB, prefill_tensor=1).prefill_micros(tokens=1000, cached=0)
    assert JOB.prefill_micros(tokens=1000, cached=0) == pytest.approx(alone / 4, abs=1)
