"""What a description of inference refuses, and what it says of itself."""

from dataclasses import replace
from pathlib import Path

import pytest

from emulator.annexes.workloads.inference import (
    MODEL_SHAPES,
    Inference,
    Request,
    ServedModel,
    played_requests,
    poisson_requests,
)
from emulator.errors import PlanError


def test_bytes_of_a_token_are_the_published_ones() -> None:
    """Two of (layers x heads x head size), BF16; for R1 layers x (latent + rotary key)."""
    of_token = {model.value: shape.token_bytes(2) for model, shape in MODEL_SHAPES.items()}
    assert of_token == {
        "llama-3.1-8b": 2 * 32 * 8 * 128 * 2,
        "llama-3.1-70b": 327_680,
        "llama-3.1-405b": 2 * 126 * 8 * 128 * 2,
        "deepseek-r1": 70_272,
    }


def test_a_prefill_takes_two_operations_a_parameter_and_attends_to_what_came_before() -> None:
    shape = MODEL_SHAPES[ServedModel.LLAMA_70B]
    alone = shape.prefill_flops(tokens=1, cached=0)
    assert alone == 2 * shape.parameters + 4 * 80 * 8192
    assert shape.prefill_flops(tokens=1, cached=1000) - alone == 4 * 80 * 8192 * 1000
    whole = shape.prefill_flops(tokens=3000, cached=0)
    assert whole == shape.prefill_flops(tokens=1000, cached=0) + shape.prefill_flops(tokens=2000, cached=1000)


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
