"""A transformer as text."""

from __future__ import annotations

import pytest

from emulator.trace.synthetic.transformer.pipeline_schedule import PipelineSchedule
from emulator.trace.synthetic.transformer.text import parse_transformer
from emulator.trace.synthetic.transformer.transformer import Transformer


def test_what_is_not_given_has_a_default_and_the_batch_follows() -> None:
    assert parse_transformer("layers=4, data=2,micro-batches=3") == Transformer(
        layers=4, hidden=8192, sequence=2048, data=2, micro_batches=3, batch=6
    )


def test_words_switches_and_rates_are_read() -> None:
    found = parse_transformer("layers=2,schedule=gpipe,recompute=1,shard_optimizer=0,device_tflops=312.5")
    assert (found.schedule, found.recompute, found.shard_optimizer) == (PipelineSchedule.GPIPE, True, False)
    assert found.device_tflops == 312.5


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("hidden=8", "give layers=N"),
        ("layers=4,hiden=8", "did you mean 'hidden'?"),
        ("layers", "'layers': write NAME=VALUE"),
        ("layers=many", "layers=many: give a number"),
        ("layers=3,pipeline=2", "layers"),
    ],
)
def test_what_cannot_be_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=r"layers|hidden") as refused:
        parse_transformer(text)
    assert problem in str(refused.value)
