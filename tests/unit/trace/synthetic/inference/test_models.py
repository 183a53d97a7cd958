"""Bytes of a token in published models."""

from __future__ import annotations

from emulator.trace.synthetic.inference.models import MODEL_SHAPES, ServedModel


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
